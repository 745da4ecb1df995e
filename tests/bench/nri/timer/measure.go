package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// report is one line of output about calls; all times are microseconds.
// Adjusted counts the answers that held an environment, so that a plugin that does nothing cannot look fast.
type report struct {
	Event        string    `json:"event"`
	Kind         kind      `json:"kind"`
	Count        int       `json:"count"`
	Adjusted     int       `json:"adjusted"`
	Failed       int       `json:"failed"`
	Error        string    `json:"error,omitempty"`
	RequestBytes int       `json:"request_bytes"`
	Total        float64   `json:"total_us"`
	Min          float64   `json:"min_us"`
	P50          float64   `json:"p50_us"`
	P90          float64   `json:"p90_us"`
	P99          float64   `json:"p99_us"`
	Samples      []float64 `json:"samples_us,omitempty"`
}

// listening says that the socket is there.
type listening struct {
	Event string `json:"event"`
}

// synchronized is one line of output about a plugin's start; times are microseconds.
type synchronized struct {
	Event        string  `json:"event"`
	Containers   int     `json:"containers"`
	Updates      int     `json:"updates"`
	Registration float64 `json:"register_to_synchronized_us"`
	Synchronize  float64 `json:"synchronize_us"`
}

// outcome is one round trip.
type outcome struct {
	took     time.Duration
	adjusted bool
	size     int
	err      error
}

func (r *runtime) create(request *api.CreateContainerRequest) outcome {
	// Taken before the call, which writes the adjustment into the request's container.
	size := proto.Size(request)
	began := time.Now()
	response, err := r.nri.CreateContainer(context.Background(), request)
	took := time.Since(began)
	return outcome{took, len(response.GetAdjust().GetEnv()) > 0, size, err}
}

// round times calls one at a time with a pause between them, which is how a node sees them.
func (r *runtime) round(w *world, k kind, count int, gap time.Duration) report {
	outcomes := make([]outcome, count)
	began := time.Now()
	for i := range outcomes {
		request := w.createRequest(k)
		time.Sleep(gap)
		outcomes[i] = r.create(request)
	}
	return summarize("round", k, outcomes, time.Since(began))
}

// burst times calls that all begin at once; the runtime's lock makes them wait for each other.
func (r *runtime) burst(w *world, k kind, count int) report {
	outcomes := make([]outcome, count)
	requests := make([]*api.CreateContainerRequest, count)
	for i := range requests {
		requests[i] = w.createRequest(k)
	}
	var group sync.WaitGroup
	began := time.Now()
	for i := range outcomes {
		group.Add(1)
		go func() {
			defer group.Done()
			outcomes[i] = r.create(requests[i])
		}()
	}
	group.Wait()
	return summarize("burst", k, outcomes, time.Since(began))
}

func summarize(event string, k kind, outcomes []outcome, total time.Duration) report {
	result := report{Event: event, Kind: k, Count: len(outcomes), Total: microseconds(total)}
	for _, o := range outcomes {
		result.RequestBytes = o.size
		result.Samples = append(result.Samples, microseconds(o.took))
		if o.adjusted {
			result.Adjusted++
		}
		if o.err != nil {
			result.Failed++
			result.Error = o.err.Error()
		}
	}
	sorted := slices.Sorted(slices.Values(result.Samples))
	result.Min, result.P50 = sorted[0], percentile(sorted, 50)
	result.P90, result.P99 = percentile(sorted, 90), percentile(sorted, 99)
	return result
}

// percentile is the smallest sample that at least that many per cent do not exceed.
func percentile(sorted []float64, percent int) float64 {
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

func microseconds(d time.Duration) float64 {
	return float64(d.Nanoseconds()) / 1000
}
