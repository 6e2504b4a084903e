// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"io"
	"strings"

	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain"
)

// deriving is the first claim or template with derived attributes, nil if none has any.
func (in *inputs) deriving() *object {
	for _, o := range in.objects {
		if o.claim != nil && explain.Derives(o.claim) {
			return o
		}
	}
	return nil
}

// withDerived are the gates where the API server keeps derived attributes.
func (o *simulateOptions) withDerived(gates allocation.Gates, errOut io.Writer) allocation.Gates {
	gates, note := explain.GatesOfKept(gates, o.gates)
	if note != "" {
		fmt.Fprintln(errOut, note)
	}
	return gates
}

// askDerived asks the cluster by a dry run whether it keeps the derived attributes of an
// object of a file, unless --feature-gates says so. Where it may not be asked the gates
// stay as they are.
func (o *simulateOptions) askDerived(ctx context.Context, client kubernetes.Interface, deriving *object, gates allocation.Gates, errOut io.Writer) (allocation.Gates, error) {
	if strings.Contains(o.gates, allocation.GateDerivedAttributes) {
		return gates, nil
	}
	namespace, err := o.cluster.CurrentNamespace()
	if err != nil {
		return gates, err
	}
	stored, err := cmdutil.DryRunClaim(ctx, client, namespace, deriving.claim)
	switch {
	case err != nil:
		fmt.Fprintf(errOut, "whether the API server keeps the derivedAttributes of %s is not known, --feature-gates says it: %s\n", deriving, cmdutil.OneLine(err))
	case explain.Derives(&stored.Spec):
		return o.withDerived(gates, errOut), nil
	default:
		fmt.Fprintf(errOut, "the API server drops the derivedAttributes of %s without a word: feature gate %s is off there\n", deriving, allocation.GateDerivedAttributes)
	}
	return gates, nil
}
