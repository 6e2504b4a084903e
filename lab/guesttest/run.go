// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guesttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/progress"
	"plumbline.dev/plumbline/lab/vm"
	"plumbline.dev/plumbline/lab/vm/guest"
)

// Default are the packages whose tests need a kernel of their own, PCI NICs or
// link types that few hosts have.
var Default = []string{"./internal/doctor", "./internal/driver/netdev", "./internal/driver/netdev/hoststate", "./internal/host/...", "./internal/hostsetup", "./internal/inventory", "./internal/verify/collect"}

// RDMA are the packages, and RDMATests the tests of them by name, that need RDMA in
// network namespaces or a NIC with virtual functions.
var RDMA = []string{"./internal/hostpolicy", "./internal/inventory", "./internal/driver/netdev"}

// RDMATests goes to -test.run. It leaves out those of internal/driver/netdev that set a
// physical function down or make its functions anew below a pod: now and then QEMU's igb
// holds the guest's kernel up for ever there, by a lock that every link needs. --run has
// them.
const RDMATests = "^Test(RDMA|SRIOV(NumVFs|Functions|InPods|PodEnds|Refused)$)"

// SRIOVInterface is the interface of the NIC with virtual functions that the guest with
// RDMA has.
const SRIOVInterface = "sriov0"

// sriovVariable names, in the environment of tests, the interface of a NIC that can have
// virtual functions and has none, which a test may make and remove.
const sriovVariable = "PLUMBLINE_SRIOV_NIC"

// rdmaVariable names, in the environment of tests, NICs that have an RDMA device and
// that a test may move, separated by commas. They reach each other.
const rdmaVariable = "PLUMBLINE_RDMA_NICS"

// Modules are kernel modules that tests use and a node does not.
var Modules = []string{"bonding", "tun", "ifb", "macvtap", "vxlan", "sch_ingress", "cls_bpf", "sch_fq", "sch_prio",
	"sch_fq_codel", "sch_sfq", "sch_htb", "sch_tbf", "cls_matchall", "act_gact",
	// One for each kind of link that stands on another, or could; batman-adv asks
	// for crc32c without saying so.
	"crc32c_generic", "ipvtap", "macsec", "geneve", "ip_gre", "ip6_gre", "ipip", "sit", "ip_vti", "ip6_vti", "ip6_tunnel", "xfrm_interface",
	"team", "batman-adv", "wireguard", "nlmon", "vcan", "vxcan",
	// Has a private flag.
	"slcan"}

// sysctls keep the namespaces that tests make empty: the drivers of tunnels put
// one such as sit0 into each.
var sysctls = map[string]string{"net.core.fb_tunnels_only_for_init_net": "1"}

// nicFlag is the flag of tests that move, reconfigure and lose a NIC.
const nicFlag = "physical-nic"

// ErrFailed is what a run ends with in which a test failed. Which one has been
// printed by then.
var ErrFailed = errors.New("guest-test: FAIL")

// Runner runs tests.
type Runner struct {
	// Source is the checkout's root folder.
	Source string
	// Dir is the runner's own folder: test binaries, the machine, logs.
	Dir string
	// VM is the machine to boot, without files and services.
	VM vm.Config
	// Tools is the folder into which iproute2, ethtool and kmod are unpacked.
	Tools string
	// RDMATools, where set, is the folder into which perftest is unpacked: the guest's
	// kernel has RDMA in network namespaces.
	RDMATools string
	// Args go to every test binary, such as -test.run=TestX.
	Args []string
	// Variables are the tests' environment besides PLUMBLINE_GUEST=1.
	Variables []string
	// Limit ends the tests of one package.
	Limit time.Duration
	// Progress shows what goes on, Out gets the result.
	Progress *progress.Printer
	Out      io.Writer
}

// MachineDir is the virtual machine's folder.
func (r Runner) MachineDir() string { return filepath.Join(r.Dir, "vm") }

// Run builds, boots, runs, counts and stops.
func (r Runner) Run(ctx context.Context, patterns []string) (err error) {
	binaries := filepath.Join(r.Dir, "binaries")
	if err := os.MkdirAll(binaries, 0o755); err != nil {
		return err
	}
	packages, err := r.build(ctx, binaries, patterns)
	if err != nil {
		return err
	}
	machine, err := r.boot(ctx, packages)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, machine.Stop(context.WithoutCancel(ctx))) }()
	var results []PackageResult
	ok := true
	for _, p := range packages {
		result, err := r.one(ctx, machine, p)
		if err != nil {
			return err
		}
		ok = ok && result.OK()
		results = append(results, result)
	}
	fmt.Fprintf(r.Out, "\nTests in a virtual %s (logs in %s)\n\n", r.VM.Shape.Name, r.Dir)
	if err := Print(r.Out, results); err != nil {
		return err
	}
	if !ok {
		return ErrFailed
	}
	fmt.Fprintln(r.Out, "guest-test: PASS")
	return nil
}

func (r Runner) build(ctx context.Context, dir string, patterns []string) ([]testPackage, error) {
	task := r.Progress.Start("test binaries")
	packages, err := build(ctx, r.Source, dir, patterns)
	if err != nil {
		task.Fail()
		return nil, err
	}
	task.Done(fmt.Sprintf("%d built", len(packages)))
	return packages, nil
}

// bootLimit is how long the guest may take, also when it does not come up at
// first; emulated it needs ten seconds.
const bootLimit = 8 * time.Minute

func (r Runner) boot(ctx context.Context, packages []testPackage) (*vm.VM, error) {
	files, err := excerpt(r.Source, packages)
	if err != nil {
		return nil, err
	}
	tools, err := node.HostTools(r.Tools)
	if err != nil {
		return nil, err
	}
	files.Add(tools)
	if r.RDMATools != "" {
		if tools, err = node.RDMATools(r.RDMATools); err != nil {
			return nil, err
		}
		files.Add(tools)
	}
	c := r.VM
	c.Dir, c.Files, c.Modules, c.Sysctls = r.MachineDir(), files, Modules, sysctls
	task := r.Progress.Start("virtual machine " + c.Shape.Name)
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	machine, _, err := vm.Boot(ctx, c, func(why error) {
		r.Progress.Note("  the machine did not come up, and is started again: %v", why)
	})
	if err != nil {
		task.Fail()
		return nil, err
	}
	task.Done("booted")
	return machine, nil
}

// one runs one package's tests in its own folder and keeps what they print. They
// run in short mode: tests of fixtures alone are the same on every kernel, and
// emulated they would take minutes.
func (r Runner) one(ctx context.Context, machine *vm.VM, p testPackage) (PackageResult, error) {
	task := r.Progress.Start(p.Dir)
	began := time.Now()
	limit := int(r.Limit.Seconds())
	words := append([]string{"./" + path.Base(p.Binary), "-test.v", "-test.short", fmt.Sprintf("-test.timeout=%ds", limit)}, r.Args...)
	if p.NIC {
		nics := slices.DeleteFunc(vm.NICs(r.VM.Shape), func(n vm.NIC) bool { return n.Name == r.VM.Shape.SRIOV() })
		if len(nics) == 0 {
			return PackageResult{}, fmt.Errorf("%s needs a NIC, and %s has none", p.Dir, r.VM.Shape.Name)
		}
		words = append(words, "-"+nicFlag+"="+nics[len(nics)-1].Name)
	}
	script := fmt.Sprintf("cd %s && exec env PLUMBLINE_GUEST=1 %s", quote([]string{path.Join(guestSource, p.Dir)}),
		quote(slices.Concat(r.variables(), words)))
	// A process that the guest's kernel does not let go is ended by nobody there.
	ctx, cancel := context.WithTimeout(ctx, r.Limit+time.Minute)
	defer cancel()
	response, err := machine.Exec(ctx, guest.Request{
		Argv: []string{"/bin/sh", "-c", script + " 2>&1"}, TimeoutSeconds: limit + 10,
	})
	if err != nil {
		task.Fail()
		return PackageResult{}, err
	}
	log := filepath.Join(r.Dir, strings.ReplaceAll(p.Dir, "/", "-")+".log")
	if err := os.WriteFile(log, response.Stdout, 0o644); err != nil {
		return PackageResult{}, err
	}
	result := count(p.Dir, string(response.Stdout), response.Code)
	result.Seconds = time.Since(began).Seconds()
	if result.OK() {
		task.Done(fmt.Sprintf("%d passed", result.Passed))
	} else {
		task.Fail()
	}
	return result, nil
}

// variables are the tests' environment.
func (r Runner) variables() []string {
	if r.RDMATools == "" {
		return r.Variables
	}
	var names []string
	for _, n := range vm.NICs(r.VM.Shape) {
		if n.RDMA != "" {
			names = append(names, n.Name)
		}
	}
	return append(slices.Clone(r.Variables), rdmaVariable+"="+strings.Join(names, ","), sriovVariable+"="+r.VM.Shape.SRIOV())
}

// quote makes words of the shell of them.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
