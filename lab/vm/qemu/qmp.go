// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// Quit asks the QEMU behind a connection to its control socket to end at once
// (docs/interop/qmp-spec.txt), and closes the connection.
func Quit(ctx context.Context, conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	deadline := time.Now().Add(5 * time.Second)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return fmt.Errorf("connect to QEMU: %w", err)
	}
	lines := bufio.NewScanner(conn)
	lines.Scan() // the greeting
	for _, command := range []string{"qmp_capabilities", "quit"} {
		if err := execute(conn, lines, command); err != nil {
			return fmt.Errorf("tell QEMU to %s: %w", command, err)
		}
	}
	return nil
}

// execute sends a command without arguments and waits for its answer; events
// may come before it.
func execute(conn net.Conn, lines *bufio.Scanner, command string) error {
	if err := json.NewEncoder(conn).Encode(map[string]string{"execute": command}); err != nil {
		return err
	}
	for lines.Scan() {
		var answer struct {
			Return *json.RawMessage `json:"return"`
			Error  *struct {
				Description string `json:"desc"`
			} `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			return err
		}
		if answer.Error != nil {
			return fmt.Errorf("refused: %s", answer.Error.Description)
		}
		if answer.Return != nil {
			return nil
		}
	}
	return lines.Err()
}
