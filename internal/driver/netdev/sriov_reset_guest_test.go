// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
)

// A pod's virtual function is what its claim says after the physical one was set down and
// up. Given back while that is down, it is the host's as it was when that is up again.
func TestSRIOVPhysicalFunctionGoesDown(t *testing.T) {
	h := newSRIOVHost(t, 2)
	pod := hosttest.NewNamespace(t)
	r := h.lend(t, h.plan(t, 0, sriovParameters(0, "")), pod)
	want := h.claimed(0, sriovSettings(0, true, false))
	hosttest.Host(t, "ip link set "+h.pf.Name+" down")
	hosttest.Host(t, "ip link set "+h.pf.Name+" up")
	h.expect(t, "down and up", want)
	h.awaitCarrier(t, pod)
	hosttest.Host(t, "ip link set "+h.pf.Name+" down")
	if err := h.undo(t, r, pod.Path()); err != nil {
		t.Error(err)
	}
	hosttest.Host(t, "ip link set "+h.pf.Name+" up")
	h.awaitPF(t)
	h.back(t, "up again", r, pod.Path())
}

// Virtual functions that were made anew under a pod are the host's, as if nobody had set
// them: the claim's go back to the pod as it says, and then to the host as they were.
func TestSRIOVMadeAnew(t *testing.T) {
	h := newSRIOVHost(t, 2)
	pod := hosttest.NewNamespace(t)
	r := h.lend(t, h.plan(t, 0, sriovParameters(0, "")), pod)
	inside := sriovSettings(0, true, false)
	h.pf.SetVFs(t, 0)
	h.pf.SetVFs(t, 2)
	h.awaitPF(t) // igb refuses a rate without a link (igb_main.c, igb_ndo_set_vf_bw)
	anew := h.tell(t)
	t.Logf("made anew: %s", spellVFs(anew))
	h.restart(t)
	if _, err := h.driver.Attach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	if got := h.tell(t)[0].VFSettings; got.String() != inside.String() {
		t.Errorf("attached again: %s, want %s", got, inside)
	}
	if err := h.undo(t, r, pod.Path()); err != nil {
		t.Error(err)
	}
	if got := h.tell(t)[0].VFSettings; got.String() != h.was[0].String() {
		t.Errorf("given back: %s, want %s", got, h.was[0])
	}
	if diff := cmp.Diff(h.before[0], h.state(t, h.vfs[0])); diff != "" {
		t.Errorf("the host (-before +after):\n%s", diff)
	}
}

// With its function gone a claim says so, and what is left of it ends.
func TestSRIOVGone(t *testing.T) {
	h := newSRIOVHost(t, 1)
	pod := hosttest.NewNamespace(t)
	r := h.lend(t, h.plan(t, 0, sriovParameters(0, "")), pod)
	h.pf.SetVFs(t, 0)
	if err := h.driver.Detach(t.Context(), r, pod.Path()); !driver.OnlyGone(err) {
		t.Errorf("detach: %v, want one that says it is gone", err)
	}
	if err := h.driver.Unstage(t.Context(), r); err != nil {
		t.Errorf("unstage: %v", err)
	}
}

// awaitCarrier waits until the pod's function has found out that the physical one is up.
func (h *sriovHost) awaitCarrier(t *testing.T, pod *hosttest.Namespace) {
	t.Helper()
	eventually(t, "wait for the pod's link", func() error {
		conn, link := inside(t, pod)
		defer conn.Close()
		if link.State != "up" {
			return fmt.Errorf("%s is not up", link.Name)
		}
		return nil
	})
}

// awaitPF waits for the physical function's carrier.
func (h *sriovHost) awaitPF(t *testing.T) {
	t.Helper()
	eventually(t, "wait for the physical function's link", func() error {
		link, err := h.driver.host.LinkByName(h.pf.Name)
		if err != nil {
			return err
		}
		if link == nil || link.State != "up" {
			return fmt.Errorf("%s is not up", h.pf.Name)
		}
		return nil
	})
}
