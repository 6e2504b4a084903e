// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/atomicfile"
)

// remembered bounds the wait for the API server where what it said last will
// do: the pods of the node wait for their devices.
const remembered = time.Second

// Node reads the node's labels and addresses, and keeps them in file. While
// the API server is away, an agent that has been here before goes on with what
// is kept; the first one asks until it is answered, since without the node's
// addresses nobody knows which NIC it cannot spare.
func Node(ctx context.Context, client kubernetes.Interface, name, file string) (*corev1.Node, error) {
	logger := klog.FromContext(ctx)
	kept, err := readNode(file, name)
	if err != nil {
		logger.Error(err, "the API server will be asked")
	}
	limit := 10 * time.Second
	if kept != nil {
		limit = remembered
	}
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		attempt, cancel := context.WithTimeout(ctx, limit)
		node, err := client.CoreV1().Nodes().Get(attempt, name, metav1.GetOptions{})
		cancel()
		if err == nil {
			return node, keepNode(file, node)
		}
		if kept != nil && ctx.Err() == nil {
			logger.Info("node not read, going on with its labels and addresses of last time", "node", name, "reason", err.Error())
			return kept, nil
		}
		logger.Info("node not read", "node", name, "reason", err.Error(), "retryIn", wait)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("read node %s: %w", name, err)
		case <-time.After(wait):
		}
	}
}

// readNode returns nil where nothing is kept of the node.
func readNode(file, name string) (*corev1.Node, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is kept of the node: %w", err)
	}
	var node corev1.Node
	if err := json.Unmarshal(text, &node); err != nil {
		return nil, fmt.Errorf("read what is kept of the node: %s: %w", file, err)
	}
	if node.Name != name {
		return nil, nil // the machine has another name by now
	}
	return &node, nil
}

func keepNode(file string, node *corev1.Node) error {
	small := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels},
		Status:     corev1.NodeStatus{Addresses: node.Status.Addresses},
	}
	text, err := json.Marshal(small)
	if err != nil {
		return fmt.Errorf("keep the node: %w", err)
	}
	if err := atomicfile.Write(file, 0o600, bytes.NewReader(text)); err != nil {
		return fmt.Errorf("keep the node: %w", err)
	}
	return nil
}
