package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"k8s.io/apimachinery/pkg/types"
)

// oneKey turns each change of a DaemonSet into the same request: there is one resource, whose children they are.
func oneKey(from cache.Cache) source.Source {
	resource := reconcile.Request{NamespacedName: types.NamespacedName{Name: "default"}}
	return source.Kind(from, client.Object(&appsv1.DaemonSet{}), handler.EnqueueRequestsFromMapFunc(
		func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{resource} },
	))
}
