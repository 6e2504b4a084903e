// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"plumbline.dev/plumbline/internal/host/netns"
)

const (
	// Program is the name of the hook's program.
	Program = "plumbline-guard"
	// SelfTest is the argument with which the program says that it can run.
	SelfTest = "--self-test"
	// Works is what it answers then.
	Works = "plumbline-guard works"

	// WaitAtMost is how long a device may be on its way. The kubelet gives up
	// after two minutes, and a container that fails to start fails a pod with
	// restartPolicy Never for good: hence the wait.
	WaitAtMost = 60 * time.Second
	lookEvery  = 100 * time.Millisecond
)

// Options are where to look. Every path is a value.
type Options struct {
	// ProcRoot is the host's /proc as a path; Proc is the same to read from.
	ProcRoot string
	Proc     fs.FS
	// Wait is how long to wait for a device, WaitAtMost but in tests.
	Wait time.Duration

	kernel kernel // the real one where it is empty
}

// Run waits until the container whose state is on in has what args want. The
// error is the sentence with which the container fails.
func Run(ctx context.Context, args []string, in io.Reader, o Options) error {
	own, err := parseArgs(args)
	if err != nil {
		return err
	}
	s, err := decodeState(in)
	if err != nil {
		return err
	}
	wants, err := s.all(own)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	for {
		problem := o.look(s, own, wants)
		if problem == nil {
			return nil
		}
		if errors.Is(problem, netns.ErrGone) || errors.As(problem, new(permanentError)) {
			return fmt.Errorf("%s: %w", s.pod(), problem) // nobody brings its process or its file back
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; waited %s for the node's plumbline-agent to put it right, and the container must not run without it", s.pod(), problem, o.Wait)
		case <-time.After(lookEvery):
		}
	}
}

// look says what the container lacks of the hook's own devices, RDMA included, and where it may
// run beyond all that its hooks want; or nil.
func (o Options) look(s state, own, wants []Want) error {
	missing, err := Missing(filepath.Join(o.ProcRoot, strconv.Itoa(s.PID), "ns", "net"), own)
	if err != nil {
		return err
	}
	wrong, err := misplaced(o.Proc, s.PID, wants)
	if err != nil {
		return err
	}
	lacks, err := o.lacksRDMA(s, own)
	if err != nil {
		return err
	}
	if all := slices.Concat(missing, wrong, lacks); len(all) > 0 {
		return errors.New(strings.Join(all, "; "))
	}
	return nil
}
