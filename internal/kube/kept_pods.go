// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/atomicfile"
)

const (
	keptVersion = 1
	// keepEvery is the least time between two writes: a node that starts many pods
	// writes one file for all of them.
	keepEvery = time.Second
)

// keptPods is a file with the facts of the node's pods, for an agent that starts
// while the API server is away.
type keptPods struct {
	Version int   `json:"version"`
	Pods    []Pod `json:"pods"`
}

// keepIn keeps an informer's pods in file from now on, and answers from what is
// there until the API server has.
func keepIn(ctx context.Context, file string, informer cache.SharedInformer) (before func(types.UID) *Pod, err error) {
	kept, err := readKept(file)
	if err != nil {
		klog.FromContext(ctx).Error(err, "pods are known when the API server shows them")
	}
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default: // it has one
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
	}); err != nil {
		return nil, err
	}
	go keep(ctx, informer, changed, file)
	return func(uid types.UID) *Pod {
		if facts, ok := kept[uid]; ok && !informer.HasSynced() {
			return &facts
		}
		return nil
	}, nil
}

// readKept reads what an agent before this one kept; nothing where none did.
func readKept(file string) (map[types.UID]Pod, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the node's pods of last time: %w", err)
	}
	pods, err := decodeKept(text)
	if err != nil {
		return nil, fmt.Errorf("read the node's pods of last time from %s: %w", file, err)
	}
	return pods, nil
}

func decodeKept(text []byte) (map[types.UID]Pod, error) {
	var kept keptPods
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, err
	}
	if kept.Version != keptVersion {
		return nil, fmt.Errorf("version %d: want %d", kept.Version, keptVersion)
	}
	pods := make(map[types.UID]Pod, len(kept.Pods))
	for _, facts := range kept.Pods {
		pods[facts.UID] = facts
	}
	return pods, nil
}

func encodeKept(pods []any) ([]byte, error) {
	kept := keptPods{Version: keptVersion, Pods: []Pod{}}
	for _, obj := range pods {
		if pod, ok := obj.(*corev1.Pod); ok {
			kept.Pods = append(kept.Pods, *podOf(pod))
		}
	}
	slices.SortFunc(kept.Pods, func(a, b Pod) int { return cmp.Compare(a.UID, b.UID) })
	return json.Marshal(kept)
}

// keep writes the informer's pods to file whenever they change, once the API
// server has said which there are: until then the file knows more.
func keep(ctx context.Context, informer cache.SharedInformer, changed <-chan struct{}, file string) {
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return
	}
	var last []byte
	for {
		text, err := encodeKept(informer.GetStore().List())
		if err == nil && !bytes.Equal(text, last) {
			err = atomicfile.Write(file, 0o600, bytes.NewReader(text))
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "an agent that starts while the API server is away does not know the newest pods")
		} else {
			last = text
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(keepEvery):
		}
	}
}
