// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the objects of the group plumbline.dev that are about hosts.
// A HostReport is what an agent found on its node; the Installation sums nodes up.
// Parameters of claims, which people write, live in api/v1alpha1.
//
// Fields are only ever added within v1alpha1. The CustomResourceDefinitions of the chart
// are generated from here (make generate).
//
// +kubebuilder:object:generate=true
// +groupName=plumbline.dev
package v1alpha1
