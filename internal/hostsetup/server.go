// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostsetup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// Server carries out what an agent asks.
type Server struct {
	// Dir is the folder of requests and answers.
	Dir    string
	BootID string
	Host   Host
	// Root is the host's file system, whose modprobe loads modules.
	Root string
}

const (
	// lookAgain is the time between two looks for a new request: a small file.
	lookAgain = time.Second
	// tryAgain is the time after which an unchanged request is carried out again: what
	// failed may work by now.
	tryAgain = 30 * time.Second
)

// Run carries out requests until ctx ends.
func (s Server) Run(ctx context.Context) error {
	var last Request
	var done time.Time
	for {
		next, err := s.Next()
		if err != nil {
			return err
		}
		if next.BootID != last.BootID || next.Number != last.Number || time.Since(done) >= tryAgain {
			if err := s.CarryOut(ctx, next); err != nil {
				return err
			}
			last, done = next, time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAgain):
		}
	}
}

// Next is what is asked now.
func (s Server) Next() (r Request, err error) {
	err = load(s.Dir, requestFile, &r)
	return r, err
}

// CarryOut makes all changes of a request, and answers.
func (s Server) CarryOut(ctx context.Context, r Request) error {
	if r.BootID != s.BootID {
		return nil // of the kernel before a reboot
	}
	told := answers{BootID: s.BootID, Number: r.Number}
	for _, c := range r.Changes {
		a := answer{Change: c}
		var err error
		if a.BuiltIn, err = s.change(ctx, c); err != nil {
			a.Error = err.Error()
		}
		klog.FromContext(ctx).Info("asked for a change of the host", "function", c.Function, "field", c.Field, "value", c.Value, "error", a.Error)
		told.Answers = append(told.Answers, a)
	}
	return save(s.Dir, answersFile, told)
}

// change makes one change. Who asks is believed nothing: the file may be anybody's who is
// root.
func (s Server) change(ctx context.Context, c Change) (builtIn bool, err error) {
	if err := c.Validate(); err != nil {
		return false, fmt.Errorf("refused: %w", err)
	}
	modules := loader{host: s.Host, dir: s.Dir, bootID: s.BootID, modprobe: hostsModprobe(s.Root), remove: deleteModule}
	module, ok := strings.CutPrefix(c.Field, FieldModule)
	switch {
	case !ok:
		return false, s.Host.write(c)
	case c.Value == Absent:
		return false, modules.unload(module)
	}
	return modules.load(ctx, module)
}
