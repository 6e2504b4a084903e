// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package harness

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

// ErrTimeout says that a condition did not come true in time.
var ErrTimeout = errors.New("not in time")

// WaitFor polls a condition, at once and then every interval, until it is true or
// fails. It returns ErrTimeout when the limit is over, and the context's error when
// that ends.
func WaitFor(ctx context.Context, every, limit time.Duration, condition func() (bool, error)) error {
	var failed error
	err := wait.PollUntilContextTimeout(ctx, every, limit, true, func(context.Context) (done bool, err error) {
		done, failed = condition()
		return done, failed
	})
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return ErrTimeout
	}
	return nil
}

// DeleteNamespace deletes a namespace and waits until it is gone with all that is in
// it. One that does not exist is no error.
func DeleteNamespace(ctx context.Context, client kubernetes.Interface, name string, limit time.Duration) error {
	namespaces := client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err := WaitFor(ctx, time.Second, limit, func() (bool, error) {
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
