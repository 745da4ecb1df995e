package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/containerd/nri/pkg/api"
)

// pipe is where the MPS socket directory is mounted from and to.
type pipe struct {
	source, destination string
}

// plugin adjusts fractional containers and keeps track of which pod each belongs to.
type plugin struct {
	pipeDir string
	mutex   sync.Mutex
	podOf   map[string]string
}

func newPlugin(pipeDir string) *plugin {
	return &plugin{pipeDir: pipeDir, podOf: map[string]string{}}
}

func (p *plugin) pipeFor(f *fraction) pipe {
	if f.smSharing {
		return pipe{filepath.Join(p.pipeDir, "shared", "default"), "/tmp/nvidia-mps"}
	}
	return pipe{p.pipeDir, p.pipeDir}
}

// Synchronize rebuilds the record of fractional containers from the runtime's lists.
func (p *plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	byID := make(map[string]*api.PodSandbox, len(pods))
	for _, pod := range pods {
		byID[pod.GetId()] = pod
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	clear(p.podOf)
	for _, container := range containers {
		pod := byID[container.GetPodSandboxId()]
		if f, err := fractionOf(pod.GetAnnotations(), container.GetName()); err == nil && f != nil {
			p.podOf[container.GetId()] = pod.GetUid()
		}
	}
	return nil, nil
}

// CreateContainer injects the environment and the mount, or refuses what cannot be understood.
func (p *plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	f, err := fractionOf(pod.GetAnnotations(), container.GetName())
	if err != nil {
		return nil, nil, fmt.Errorf("container %q in pod %q: %w", container.GetName(), pod.GetName(), err)
	}
	if f == nil {
		return nil, nil, nil
	}
	mount := p.pipeFor(f)
	adjustment := &api.ContainerAdjustment{}
	for _, variable := range f.environment(mount) {
		adjustment.RemoveEnv(variable[0])
		adjustment.AddEnv(variable[0], variable[1])
	}
	adjustment.AddMount(&api.Mount{
		Source: mount.source, Destination: mount.destination, Type: "bind", Options: []string{"bind", "rw"},
	})
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.podOf[container.GetId()] = pod.GetUid()
	return adjustment, nil, nil
}

// RemoveContainer forgets the container.
func (p *plugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.podOf, container.GetId())
	return nil
}

// validatingPlugin also has the runtime ask, after every plugin has spoken, whether the result may stand.
type validatingPlugin struct {
	*plugin
}

// ValidateContainerAdjustment refuses a container whose adjustment no longer holds what plugin put there.
func (p validatingPlugin) ValidateContainerAdjustment(_ context.Context, request *api.ValidateContainerAdjustmentRequest) error {
	pod, container := request.GetPod(), request.GetContainer()
	f, err := fractionOf(pod.GetAnnotations(), container.GetName())
	if err != nil {
		return err
	}
	if f == nil {
		return nil
	}
	mount := p.pipeFor(f)
	env := make(map[string]string, len(request.GetAdjust().GetEnv()))
	for _, variable := range request.GetAdjust().GetEnv() {
		env[variable.GetKey()] = variable.GetValue()
	}
	for _, expected := range f.environment(mount) {
		if env[expected[0]] != expected[1] {
			return fmt.Errorf("container %q: %s is %q, expected %q", container.GetName(), expected[0], env[expected[0]], expected[1])
		}
	}
	if !slices.ContainsFunc(request.GetAdjust().GetMounts(), func(m *api.Mount) bool {
		return m.GetSource() == mount.source && m.GetDestination() == mount.destination
	}) {
		return fmt.Errorf("container %q: mount at %s is missing", container.GetName(), mount.destination)
	}
	return nil
}
