// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package harness_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

func TestWaitFor(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end()
	errAsk := errors.New("cannot ask")
	for name, tc := range map[string]struct {
		ctx   context.Context
		limit time.Duration
		// yesAt is the question that is answered by yes, failsAt by an error.
		yesAt, failsAt int
		want           error
		asked          int
	}{
		"at once":         {t.Context(), time.Minute, 1, 0, nil, 1},
		"later":           {t.Context(), time.Minute, 3, 0, nil, 3},
		"an error":        {t.Context(), time.Minute, 3, 2, errAsk, 2},
		"never":           {t.Context(), 5 * time.Millisecond, 0, 0, harness.ErrTimeout, -1},
		"nobody waits":    {over, time.Minute, 0, 0, context.Canceled, -1},
		"a late answer":   {t.Context(), time.Nanosecond, 1, 0, nil, 1},
		"its own timeout": {t.Context(), time.Minute, 0, 1, errAsk, 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			err := harness.WaitFor(tc.ctx, time.Millisecond, tc.limit, func() (bool, error) {
				asked++
				if asked == tc.failsAt {
					return false, errors.Join(tc.want, context.DeadlineExceeded)
				}
				return asked == tc.yesAt, nil
			})
			if !errors.Is(err, tc.want) || tc.asked >= 0 && asked != tc.asked {
				t.Errorf("asked %d times: %v; want %d times: %v", asked, err, tc.asked, tc.want)
			}
		})
	}
}

func TestDeleteNamespace(t *testing.T) {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "there"}})
	for _, name := range []string{"there", "absent"} {
		if err := harness.DeleteNamespace(t.Context(), client, name, time.Minute); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "there", metav1.GetOptions{}); err == nil {
		t.Error("the namespace is there still")
	}
}
