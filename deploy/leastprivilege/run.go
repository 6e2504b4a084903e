// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leastprivilege

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Result is the answer to one request.
type Result struct {
	Request Request
	// Answer is what the API server said: "allowed", or its refusal.
	Answer string
	// Wrong is nil when the answer is the listed one.
	Wrong error
}

// Run tries every request of the list as the subject's agent. The
// administrator's configuration makes and removes the fixtures and issues the
// tokens. An error means that the list could not be tried; answers that are
// not as listed are in the results.
func Run(ctx context.Context, admin *rest.Config, subject Subject, list List) (results []Result, err error) {
	configs, err := identities(ctx, admin, subject)
	if err != nil {
		return nil, err
	}
	clients := map[string]dynamic.Interface{}
	for token, config := range configs {
		if clients[token], err = dynamic.NewForConfig(config); err != nil {
			return nil, fmt.Errorf("make agent's client: %w", err)
		}
	}
	remove, err := makeFixtures(ctx, admin, list.Fixtures)
	defer func() {
		if removeErr := remove(context.WithoutCancel(ctx)); err == nil {
			err = removeErr
		}
	}()
	if err != nil {
		return nil, err
	}
	for _, request := range list.Requests {
		results = append(results, judge(request, send(ctx, clients[request.Token], request)))
	}
	return results, nil
}

// send makes one request, as a dry run where it would write.
func send(ctx context.Context, client dynamic.Interface, r Request) error {
	gvr, err := r.gvr()
	if err != nil {
		return err
	}
	var objects dynamic.ResourceInterface = client.Resource(gvr)
	if r.Namespace != "" {
		objects = client.Resource(gvr).Namespace(r.Namespace)
	}
	var sub []string
	if r.Subresource != "" {
		sub = []string{r.Subresource}
	}
	dryRun := []string{metav1.DryRunAll}
	switch r.Verb {
	case "get":
		_, err = objects.Get(ctx, r.ObjectName, metav1.GetOptions{}, sub...)
	case "list":
		_, err = objects.List(ctx, metav1.ListOptions{Limit: 1})
	case "create":
		body := r.object().DeepCopy()
		if r.ObjectName != "" {
			body.SetName(r.ObjectName)
		}
		_, err = objects.Create(ctx, body, metav1.CreateOptions{DryRun: dryRun}, sub...)
	case "update":
		_, err = objects.Update(ctx, r.object().DeepCopy(), metav1.UpdateOptions{DryRun: dryRun}, sub...)
	case "patch":
		body, encodeErr := json.Marshal(r.Object)
		if encodeErr != nil {
			return fmt.Errorf("encode patch: %w", encodeErr)
		}
		_, err = objects.Patch(ctx, r.ObjectName, types.MergePatchType, body, metav1.PatchOptions{DryRun: dryRun}, sub...)
	case "delete":
		err = objects.Delete(ctx, r.ObjectName, metav1.DeleteOptions{DryRun: dryRun}, sub...)
	case "deletecollection":
		err = objects.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: dryRun}, metav1.ListOptions{})
	default:
		err = fmt.Errorf("send %s: not a verb of this list", r.Verb)
	}
	return err
}

// judge compares an answer with the listed one. Only the API server's refusals
// count as such: a lost connection refuses everything too.
func judge(r Request, answer error) Result {
	result := Result{Request: r, Answer: "allowed"}
	if answer != nil {
		result.Answer = answer.Error()
	}
	switch {
	case r.Refused == "":
		if answer != nil {
			result.Wrong = fmt.Errorf("%s: want it allowed: %w", r.Name, answer)
		}
	case answer == nil:
		result.Wrong = fmt.Errorf("%s: allowed, want it refused with %q", r.Name, r.Refused)
	case r.OrAbsent && apierrors.IsNotFound(answer):
	case !apierrors.IsForbidden(answer) && !apierrors.IsInvalid(answer),
		!strings.Contains(answer.Error(), r.Refused):
		result.Wrong = fmt.Errorf("%s: want it refused with %q: %w", r.Name, r.Refused, answer)
	}
	return result
}
