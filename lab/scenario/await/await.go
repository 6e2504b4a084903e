// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package await waits for what a cluster does in its own time. What is waited for
// is the caller's.
package await

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// ErrLate says that something did not come about in time.
var ErrLate = errors.New("not in time")

// Until asks, at once and then every so often, until the answer is yes or an
// error. The error is ErrLate when the limit is over, and the context's when that
// ends.
func Until(ctx context.Context, every, limit time.Duration, ask func() (bool, error)) error {
	var failed error
	err := wait.PollUntilContextTimeout(ctx, every, limit, true, func(context.Context) (yes bool, err error) {
		yes, failed = ask()
		return yes, failed
	})
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return ErrLate
	}
	return nil
}

// NamespaceGone deletes a namespace and waits until it is gone with all that is in
// it; one that is not there is.
func NamespaceGone(ctx context.Context, client kubernetes.Interface, name string, limit time.Duration) error {
	namespaces := client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err := Until(ctx, time.Second, limit, func() (bool, error) {
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("remove namespace %s: %w", name, err)
	}
	return nil
}
