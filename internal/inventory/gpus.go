// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"

	"plumbline.dev/plumbline/internal/model"
)

// GPUs is where GPU facts come from. A nil GPUs offers none: another driver
// owns them.
type GPUs interface {
	// GPUs lists the machine's GPUs. functions are those sysfs shows; nodes are
	// the device files of display functions, such as /dev/dri/card0.
	GPUs(ctx context.Context, functions []model.PCIFunction, nodes map[model.PCIAddress][]string) ([]model.GPU, []Problem, error)
}

// Listed are GPUs as somebody knows them, such as those of a machine file:
// nothing stands in for them.
type Listed []model.GPU

// GPUs implements GPUs.
func (l Listed) GPUs(context.Context, []model.PCIFunction, map[model.PCIAddress][]string) ([]model.GPU, []Problem, error) {
	return l, nil, nil
}
