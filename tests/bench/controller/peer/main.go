// peer is the yardstick: a controller on controller-runtime that reads the cluster as the Go operator does.
//
// It watches DaemonSets, and on each of their changes lists the daemons' pods in pages, reads the node of each one and
// patches the node's condition where it differs, as long as something is wrong or was wrong before. Client and manager
// are as the library makes them, its limits on requests included. It runs until it is told to end.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// As long as something is wrong, it looks again so often.
const again = 30 * time.Second

func main() {
	// The library has a flag --kubeconfig of its own.
	namespace := flag.String("namespace", "gpu-fractioning", "namespace of the DaemonSets and their pods")
	condition := flag.String("condition", "peer.example.com/Ready", "type of the node condition to write")
	flag.Parse()

	ctrl.SetLogger(klog.NewKlogr())
	if err := run(ctrl.SetupSignalHandler(), *namespace, *condition); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, namespace, condition string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("no way to the API server: %w", err)
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metrics.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		return fmt.Errorf("cannot make a manager: %w", err)
	}
	nodes := &nodes{
		api:       manager.GetClient(),
		direct:    manager.GetAPIReader(),
		namespace: namespace,
		condition: condition,
	}
	wasWell := false
	reconciler := reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		daemonsets := &appsv1.DaemonSetList{}
		if err := manager.GetClient().List(ctx, daemonsets); err != nil {
			return ctrl.Result{}, err
		}
		isWell := true
		for _, one := range daemonsets.Items {
			isWell = isWell && one.Status.NumberReady >= one.Status.DesiredNumberScheduled
		}
		if isWell && wasWell {
			return ctrl.Result{}, nil
		}
		degraded, err := nodes.update(ctx)
		wasWell = isWell && err == nil
		if !isWell || degraded > 0 {
			return ctrl.Result{RequeueAfter: again}, err
		}
		return ctrl.Result{}, err
	})
	err = ctrl.NewControllerManagedBy(manager).
		Named("peer").
		WatchesRawSource(oneKey(manager.GetCache())).
		Complete(reconciler)
	if err != nil {
		return fmt.Errorf("cannot make a controller: %w", err)
	}
	return manager.Start(ctx)
}
