// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// VirtualFunction is what the physical function of a virtual one (SR-IOV) says of it.
type VirtualFunction struct {
	// Err says why that is not known.
	Err error
	// PF is the physical function's interface, and Number that of "ip link set PF vf N".
	PF       string
	Number   int
	Settings VFSettings
}

// ErrNotOnHost is the VirtualFunction's where this program is not in the host's network
// namespace, as an observer.
var ErrNotOnHost = errors.New("this program is not in the host's network namespace, where alone physical functions tell of their virtual ones: " +
	"an agent that serves the node is, and plumbline verify --host")

// VFSettings are what a physical function says of a virtual one; nil is what it does not
// say (IFLA_VFINFO_LIST, include/uapi/linux/if_link.h).
type VFSettings struct {
	// MAC is lower case. Some drivers say the one in use for the administrator's.
	MAC  *string
	VLAN *VFVLAN
	Rate *VFRate
	// SpoofCheck drops what it sends from an address that is not its own, Trust lets it
	// choose one.
	SpoofCheck, Trust *bool
}

// VFVLAN is a virtual function's VLAN; ID 0 is none. Protocol is the Ethernet type of the
// tag, such as 0x8100.
type VFVLAN struct {
	ID, QoS  uint32
	Protocol uint16
}

// VFRate is what a virtual function sends, in Mbit/s; 0 is no limit.
type VFRate struct{ Min, Max uint32 }

// pendingVFs is the question of physical functions that is under way, if any. The kernel
// answers under the lock of all links, which a driver holds while it resets its card.
type pendingVFs struct {
	since time.Time
	found map[model.PCIAddress]VirtualFunction // once done is closed
	done  chan struct{}
	// late is true when it was given up.
	late bool
}

// start asks for the virtual functions of all targets, unless a question that was given
// up is still under way.
func (v *pendingVFs) start(o Options, targets []Target) {
	var wanted []model.PCIAddress
	for _, t := range targets {
		wanted = append(wanted, t.VirtualFunctions...)
	}
	if v.late && !v.answered() {
		return
	}
	*v = pendingVFs{since: time.Now()}
	if len(wanted) == 0 {
		return
	}
	done := make(chan struct{})
	v.done = done
	v.found = map[model.PCIAddress]VirtualFunction{}
	found := v.found
	go func() {
		defer close(done)
		readVFs(o, wanted, found)
	}()
}

func (v *pendingVFs) answered() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// await waits for what was asked until ctx ends.
func (v *pendingVFs) await(ctx context.Context, wanted []model.PCIAddress) map[model.PCIAddress]VirtualFunction {
	if len(wanted) == 0 {
		return nil
	}
	if !v.late {
		select {
		case <-v.done:
		case <-ctx.Done():
		}
		v.late = !v.answered()
	}
	out := map[model.PCIAddress]VirtualFunction{}
	for _, a := range wanted {
		if v.late {
			out[a] = VirtualFunction{Err: fmt.Errorf("asked for at %s: the kernel does not answer for its links, as while a card is reset", v.since.UTC().Format(time.RFC3339))}
			continue
		}
		out[a] = v.found[a]
	}
	return out
}

// readVFs asks the physical functions of virtual ones. It shares nothing with a Reader,
// since it may go on running after the scan has given it up.
func readVFs(o Options, wanted []model.PCIAddress, found map[model.PCIAddress]VirtualFunction) {
	fail := func(err error) {
		for _, a := range wanted {
			found[a] = VirtualFunction{Err: err}
		}
	}
	sys, err := sysfs.Open(o.Sys)
	if err != nil {
		fail(err)
		return
	}
	defer func() { _ = sys.Close() }() // nothing was written
	ask := o.PhysicalFunction
	if ask == nil {
		var done func()
		if ask, done, err = hostLinks(o.Proc); err != nil {
			fail(err)
			return
		}
		defer done()
	}
	asked := map[int]map[int]VFSettings{}
	for _, a := range wanted {
		v := VirtualFunction{}
		if v.Err = v.read(sys, a, ask, asked); v.Err != nil {
			v = VirtualFunction{Err: v.Err}
		}
		found[a] = v
	}
}

// read finds a virtual function at its physical one. asked remembers the answers, by the
// index of the link.
func (v *VirtualFunction) read(sys *sysfs.Dir, a model.PCIAddress, ask func(int) (map[int]VFSettings, error), asked map[int]map[int]VFSettings) error {
	link, err := sys.ReadLink(path.Join("bus/pci/devices", a.String(), "physfn"))
	if err != nil {
		return fmt.Errorf("the kernel shows no physical function of %s: %w", a, err)
	}
	pf, err := model.ParsePCIAddress(path.Base(link))
	if err != nil {
		return fmt.Errorf("physical function of %s: %w", a, err)
	}
	number, err := sysfs.VFIndex(sys, pf, a)
	if err != nil {
		return err
	}
	if number == nil {
		return fmt.Errorf("%s is none of the virtual functions of %s", a, pf)
	}
	index := 0
	if v.PF, index, err = interfaceOf(sys, pf); err != nil {
		return err
	}
	all, ok := asked[index]
	if !ok {
		if all, err = ask(index); err != nil {
			return fmt.Errorf("physical function %s: %w", v.PF, err)
		}
		asked[index] = all
	}
	settings, told := all[*number]
	if !told {
		return fmt.Errorf("physical function %s tells nothing of its virtual function %d", v.PF, *number)
	}
	v.Number, v.Settings = *number, settings
	return nil
}

// interfaceOf finds the one interface of a physical function on the host.
func interfaceOf(sys *sysfs.Dir, pf model.PCIAddress) (name string, index int, err error) {
	dir := path.Join("bus/pci/devices", pf.String(), "net")
	entries, err := sys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", 0, fmt.Errorf("interface of physical function %s: %w", pf, err)
	}
	switch len(entries) {
	case 0:
		return "", 0, fmt.Errorf("physical function %s has no interface in the host's network namespace", pf)
	case 1:
		name = entries[0].Name()
	default:
		return "", 0, fmt.Errorf("physical function %s has %d interfaces, and nothing says which is the virtual one's", pf, len(entries))
	}
	var buf [32]byte
	n, err := sys.ReadAttribute(path.Join(dir, name, "ifindex"), buf[:])
	if err == nil {
		index, err = strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	}
	if err != nil {
		return "", 0, fmt.Errorf("interface of physical function %s: %w", pf, err)
	}
	return name, index, nil
}
