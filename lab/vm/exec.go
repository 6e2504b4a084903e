// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"plumbline.dev/plumbline/lab/vm/guest"
)

// Exec runs a program in the guest as root. A program that ends with a code
// other than zero is no error. One request runs at a time; others wait.
func (v *VM) Exec(ctx context.Context, r guest.Request) (guest.Response, error) {
	fail := func(err error) (guest.Response, error) {
		return guest.Response{}, fmt.Errorf("run %v in the guest: %w", r.Argv, err)
	}
	conn, err := v.dial(ctx, controlSocket)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	r.ID = rand.Text()
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return fail(err)
	}
	response, err := answer(bufio.NewReader(conn), r.ID)
	if err != nil {
		return fail(errors.Join(err, ctx.Err()))
	}
	if response.Error != "" {
		return response, fmt.Errorf("run %v in the guest: %s", r.Argv, response.Error)
	}
	return response, nil
}

// answer reads lines until the one with the given id: what comes before is, at
// most in part, for somebody who hung up.
func answer(lines *bufio.Reader, id string) (guest.Response, error) {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return guest.Response{}, fmt.Errorf("read answer: %w", err)
		}
		var response guest.Response
		if err := json.Unmarshal(line, &response); err == nil && response.ID == id {
			return response, nil
		}
	}
}
