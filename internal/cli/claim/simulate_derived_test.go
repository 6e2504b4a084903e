// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"strings"
	"testing"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// Eight pairs of an Azure node are allocated by what the NICs derive, where the gate is
// on, and none where it is off.
func TestSimulateDerivedAttributes(t *testing.T) {
	claim := docstest.Get(t, "nccl.md", "manifest", "derived").Text
	pair := strings.NewReplacer(" &&\n", "\n", `device.attributes["dra.net"].?rdmaDevice.orValue("") == "mlx5_5"`, "").Replace(claim)
	if pair == claim {
		t.Fatalf("the claim names no NIC:\n%s", claim)
	}
	args := []string{"simulate", "-f", "-", "--machine", "azure-nd96isr-h100-v5"}
	out, err := run(t, pair, append(args, "--feature-gates", "DRADerivedAttributes=true")...)
	if err != nil || !strings.Contains(out, "8 pods") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(t, pair, args...)
	if !errors.Is(err, cmdutil.ErrReported) || !strings.Contains(out, "feature gate DRADerivedAttributes is off") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := run(t, pair, append(args, "--feature-gates", "DRANothing=true")...); err == nil || !strings.Contains(err.Error(), `--feature-gates: feature gate "DRANothing": want one of`) {
		t.Errorf("a gate that there is not: %v", err)
	}
}
