package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const pageSize = 500

var managed = client.MatchingLabels{"app.kubernetes.io/managed-by": "gpu-fractioning"}

type nodes struct {
	api       client.Client
	direct    client.Reader
	namespace string
	condition string
}

// update tells every node how its daemons are, page by page; it gives how many are not well.
func (n *nodes) update(ctx context.Context) (int, error) {
	unhealthy := map[string]bool{}
	var failures []error
	pods := &corev1.PodList{}
	for {
		page := []client.ListOption{client.InNamespace(n.namespace), managed, client.Limit(pageSize), client.Continue(pods.Continue)}
		pods = &corev1.PodList{}
		if err := n.direct.List(ctx, pods, page...); err != nil {
			return len(unhealthy), errors.Join(append(failures, err)...)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			ready := isReady(pod)
			if pod.Spec.NodeName == "" || (ready && unhealthy[pod.Spec.NodeName]) {
				continue
			}
			if !ready {
				unhealthy[pod.Spec.NodeName] = true
			}
			if err := n.tell(ctx, pod.Spec.NodeName, wanted(n.condition, ready)); err != nil {
				failures = append(failures, err)
			}
		}
		if pods.Continue == "" {
			return len(unhealthy), errors.Join(failures...)
		}
	}
}

// tell patches a node's condition, unless it says that already.
func (n *nodes) tell(ctx context.Context, name string, condition corev1.NodeCondition) error {
	node := &corev1.Node{}
	if err := n.direct.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return fmt.Errorf("cannot read node %s: %w", name, err)
	}
	for _, each := range node.Status.Conditions {
		if each.Type == condition.Type && each.Status == condition.Status && each.Reason == condition.Reason {
			return nil
		}
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}})
	if err != nil {
		return err
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := n.api.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, body)); err != nil {
		return fmt.Errorf("cannot patch node %s: %w", name, err)
	}
	return nil
}

func wanted(kind string, ready bool) corev1.NodeCondition {
	now := metav1.Now()
	condition := corev1.NodeCondition{
		Type:               corev1.NodeConditionType(kind),
		Status:             corev1.ConditionTrue,
		Reason:             "AllDaemonsReady",
		Message:            "all daemons are running",
		LastHeartbeatTime:  now,
		LastTransitionTime: now,
	}
	if !ready {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, "NotReady", "a daemon is not ready"
	}
	return condition
}

func isReady(pod *corev1.Pod) bool {
	for _, each := range pod.Status.Conditions {
		if each.Type == corev1.PodReady {
			return each.Status == corev1.ConditionTrue
		}
	}
	return false
}
