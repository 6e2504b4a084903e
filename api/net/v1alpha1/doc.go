// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the objects of the group plumbline.dev that are about networks:
// pools of addresses, and the blocks of them that nodes have. Parameters of claims, which
// name pools, live in api/v1alpha1.
//
// Fields are only ever added within v1alpha1. The CustomResourceDefinitions of the chart
// are generated from here (make generate).
//
// +kubebuilder:object:generate=true
// +groupName=plumbline.dev
package v1alpha1
