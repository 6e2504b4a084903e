// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"plumbline.dev/plumbline/lab/vm/guest"
)

// defaultTimeout ends a request that names none.
const defaultTimeout = time.Minute

// serveControl answers the host's requests, one at a time.
func serveControl(say func(string, ...any)) error {
	port, err := openPort(guest.ControlPort)
	if err != nil {
		return err
	}
	go func() {
		for {
			if err := serve(port); err != nil {
				say("control: %v", err)
			}
			// Nobody is connected; a read would return at once.
			time.Sleep(poll)
		}
	}()
	return nil
}

// serve answers requests until the host hangs up.
func serve(port *os.File) error {
	lines := bufio.NewReader(port)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		var request guest.Request
		var response guest.Response
		if err := json.Unmarshal(line, &request); err != nil {
			response.Error = fmt.Sprintf("read request: %v", err)
		} else {
			response = answer(request)
		}
		response.ID = request.ID
		text, err := json.Marshal(response)
		if err != nil {
			return fmt.Errorf("write response: %w", err)
		}
		if _, err := port.Write(append(text, '\n')); err != nil {
			return fmt.Errorf("write response: %w", err)
		}
	}
}

func answer(r guest.Request) guest.Response {
	if len(r.Argv) == 0 {
		return guest.Response{Error: "no program named"}
	}
	limit := time.Duration(r.TimeoutSeconds) * time.Second
	if limit == 0 {
		limit = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.Argv[0], r.Argv[1:]...)
	cmd.Env, cmd.Dir = environment, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(r.Stdin), &stdout, &stderr
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	response := guest.Response{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: -1}
	if cmd.ProcessState != nil {
		response.Code = cmd.ProcessState.ExitCode()
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		response.Error = fmt.Sprintf("%s did not end within %s", r.Argv[0], limit)
	case err != nil && !errors.As(err, &exit):
		response.Error = err.Error()
	}
	return response
}
