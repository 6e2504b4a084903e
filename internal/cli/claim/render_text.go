// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"text/tabwriter"

	"plumbline.dev/plumbline/api/v1alpha1"
)

// writeText writes an aligned table for each device or request.
func writeText(w io.Writer, all []rendered) error {
	var b bytes.Buffer
	for i, r := range all {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		fmt.Fprintf(&b, "%s, request %s", &object{kind: r.Kind, namespace: r.Namespace, name: r.Name}, r.Request)
		if r.Device != "" {
			fmt.Fprintf(&b, ", device %s of pool %s", r.Device, r.Pool)
		}
		fmt.Fprintln(&b)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "  FIELD\tVALUE\tFROM")
		for _, l := range r.Config.Leaves() {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", l.Path, show(l), r.Origins[l.Path])
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, m := range r.Mistakes {
			fmt.Fprintf(&b, "  refused: %s\n", m)
		}
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "  note: %s\n", n)
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(&b, "no request can be given a NIC of dra.net, or CPUs of dra.cpu")
	}
	_, err := w.Write(b.Bytes())
	return err
}

func show(l v1alpha1.Leaf) string {
	if v := reflect.ValueOf(l.Value); v.Kind() == reflect.Slice {
		return "[]"
	}
	if l.Value == "" {
		return `""`
	}
	return fmt.Sprint(l.Value)
}
