// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const hook = "unix:///run/webhook.sock"

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		name     string
		options  Options
		want     []string
		profiles bool
		warnings int
	}{
		{"the default", DefaultOptions(), []string{"GCE"}, false, 0},
		{"the default with a webhook", Options{Provider: "auto", Profiles: "cloud", WebhookURL: hook}, []string{"GCE", "webhook " + hook}, false, 0},
		{"another spelling", Options{Provider: "GCE", Profiles: "NONE"}, []string{"GCE"}, false, 0},
		{"a webhook", Options{Provider: "webhook", Profiles: "cloud", WebhookURL: hook}, []string{"webhook " + hook}, true, 0},
		{"a webhook for attributes only", Options{Provider: "webhook", Profiles: "none", WebhookURL: hook}, []string{"webhook " + hook}, false, 0},
		{"a webhook for profiles only", Options{Provider: "NONE", Profiles: "webhook", WebhookURL: hook}, nil, true, 0},
		{"a webhook in the clear", Options{Provider: "none", Profiles: "webhook", WebhookURL: "http://10.0.0.1"}, nil, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Choose(test.options)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, c := range got.Candidates {
				names = append(names, c.Name())
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
			if (got.Profiler != nil) != test.profiles || len(got.Warnings) != test.warnings {
				t.Errorf("profiler %v, warnings %q", got.Profiler, got.Warnings)
			}
		})
	}
}

func TestChooseRefuses(t *testing.T) {
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{Provider: "AWS", Profiles: "cloud"}, "--cloud-provider=AWS: this build has no provider of its own for that cloud: use webhook"},
		{Options{Provider: "gke", Profiles: "cloud"}, `--cloud-provider="gke": want auto, gce, webhook or none`},
		{Options{Provider: "none", Profiles: "all"}, `--profile-provider="all": want cloud, webhook or none`},
		{Options{Provider: "webhook", Profiles: "cloud"}, "--cloud-provider=webhook: needs --webhook-url"},
		{Options{Provider: "none", Profiles: "webhook"}, "--profile-provider=webhook: needs --webhook-url"},
		{Options{Provider: "auto", Profiles: "cloud", WebhookURL: "8080"}, "--webhook-url: "},
		{Options{Provider: "auto", Profiles: "cloud", MetadataEndpoint: "http://x"}, "--metadata-endpoint: "},
	} {
		if _, err := Choose(test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Choose(%+v) = %v, want %q", test.options, err, test.want)
		}
	}
}
