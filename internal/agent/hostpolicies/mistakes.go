// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicies

import hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"

// Mistakes are why the agent of every node would refuse a policy; nil where it would not.
func Mistakes(policy *hosts.HostPolicy) error {
	converted := fromAPI(policy)
	return converted.Validate()
}
