package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"
)

// eventsBefore22 are the events that exist in NRI before 0.10, which is in containerd 2.2.
const eventsBefore22 = 0x07ff

// runtime is the side of NRI that containerd plays, serving one plugin after the other on one socket.
type runtime struct {
	socket       string
	release      release
	nri          *adaptation.Adaptation
	registered   atomic.Int64
	synchronized chan synchronization
}

// synchronization is what a plugin's start cost.
type synchronization struct {
	sinceRegistration, call time.Duration
	updates                 int
	err                     error
}

// listen opens the socket afresh; plugins of an earlier call are forgotten.
func (r *runtime) listen(containers int) error {
	if r.nri != nil {
		r.nri.Stop()
	}
	r.synchronized = make(chan synchronization, 1)
	// Nothing is launched from the host's own plugin directory.
	empty := r.socket + ".plugins"
	options := []adaptation.Option{
		adaptation.WithSocketPath(r.socket), adaptation.WithPluginPath(empty), adaptation.WithPluginConfigPath(empty),
		adaptation.WithTTRPCOptions(r.release.asOlder(), []ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(r.noteRegistration)}),
	}
	nri, err := adaptation.New("containerd", r.release.text, r.syncWith(containers), refuseUpdates, options...)
	if err != nil {
		return err
	}
	r.nri = nri
	return nri.Start()
}

// settle returns once the plugin that was synchronised is on the list of those that are called.
func (r *runtime) settle() {
	r.nri.BlockPluginSync().Unblock()
}

func refuseUpdates(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return nil, fmt.Errorf("the timer takes no unsolicited updates")
}

func (r *runtime) syncWith(count int) adaptation.SyncFn {
	pods, containers := running(count)
	results := r.synchronized
	// Start itself synchronises the (absent) launched plugins first; that call is none of a plugin's.
	first := true
	return func(ctx context.Context, synchronize adaptation.SyncCB) error {
		if first {
			first = false
			return nil
		}
		began := time.Now()
		updates, err := synchronize(ctx, pods, containers)
		done := time.Now()
		result := synchronization{done.Sub(time.Unix(0, r.registered.Load())), done.Sub(began), len(updates), err}
		select {
		case results <- result:
		default: // one more plugin than was asked for
		}
		return err
	}
}

func (r *runtime) noteRegistration(ctx context.Context, unmarshal ttrpc.Unmarshaler, info *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	if strings.HasSuffix(info.FullMethod, "/RegisterPlugin") {
		r.registered.Store(time.Now().UnixNano())
	}
	return method(ctx, unmarshal)
}

// release is the runtime version played; what a plugin is told and allowed depends on it.
type release struct {
	text         string
	major, minor int
}

func parseRelease(text string) (release, error) {
	r := release{text: text}
	if _, err := fmt.Sscanf(strings.TrimPrefix(text, "v"), "%d.%d", &r.major, &r.minor); err != nil {
		return r, fmt.Errorf("%q is no version; accepted: a version such as 2.3.7", text)
	}
	return r, nil
}

func (r release) since(major, minor int) bool {
	return r.major > major || r.major == major && r.minor >= minor
}

// asOlder makes the adaptation, which is that of containerd 2.3, behave in registration as an older one does: before
// 2.3 it tells no NRI version, and before 2.2 it closes the connection of a plugin that subscribes to newer events.
func (r release) asOlder() []ttrpc.ClientOpts {
	if r.since(2, 3) {
		return nil
	}
	return []ttrpc.ClientOpts{ttrpc.WithUnaryClientInterceptor(r.configure)}
}

func (r release) configure(ctx context.Context, request *ttrpc.Request, response *ttrpc.Response, _ *ttrpc.UnaryClientInfo, invoke ttrpc.Invoker) error {
	if request.Method != "Configure" {
		return invoke(ctx, request, response)
	}
	var asked api.ConfigureRequest
	if err := proto.Unmarshal(request.Payload, &asked); err != nil {
		return err
	}
	asked.NRIVersion = ""
	var err error
	if request.Payload, err = proto.Marshal(&asked); err != nil {
		return err
	}
	if err := invoke(ctx, request, response); err != nil {
		return err
	}
	var answered api.ConfigureResponse
	if err := proto.Unmarshal(response.Payload, &answered); err != nil {
		return err
	}
	if extra := answered.Events &^ eventsBefore22; extra != 0 && !r.since(2, 2) {
		return fmt.Errorf("invalid plugin events: 0x%x", extra)
	}
	return nil
}

// quiet keeps the adaptation's log to what explains a failure.
type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(_ context.Context, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "timer: "+format+"\n", args...)
}
func (quiet) Errorf(_ context.Context, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "timer: "+format+"\n", args...)
}
