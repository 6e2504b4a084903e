// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"strings"
	"testing"
)

func TestAnswerSkipsOthers(t *testing.T) {
	text := "half of an old ans\"}\n{\"id\":\"old\",\"code\":1}\n{\"id\":\"mine\",\"code\":7}\n"
	r, err := answer(bufio.NewReader(strings.NewReader(text)), "mine")
	if err != nil || r.Code != 7 {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := answer(bufio.NewReader(strings.NewReader(text)), "none"); err == nil {
		t.Error("no error where no answer comes")
	}
}
