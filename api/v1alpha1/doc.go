// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is what people write: the parameters of claims and device
// classes. Decoding is strict, layers merge field by field, and every refusal
// names the field, the value and what is allowed.
//
// Fields are only ever added within v1alpha1. What a driver does with a field
// belongs to the driver.
package v1alpha1
