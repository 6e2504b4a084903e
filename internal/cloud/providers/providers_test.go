// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

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
		{"a cloud with a webhook that nobody asks", Options{Provider: "aws", Profiles: "cloud", WebhookURL: hook}, []string{"AWS"}, false, 1},
		{"another spelling", Options{Provider: "GCE", Profiles: "NONE"}, []string{"GCE"}, false, 0},
		{"AWS", Options{Provider: "AWS", Profiles: "cloud"}, []string{"AWS"}, false, 0},
		{"Azure", Options{Provider: "azure", Profiles: "cloud"}, []string{"Azure"}, false, 0},
		{"Oracle's", Options{Provider: "OKE", Profiles: "cloud"}, []string{"OKE"}, false, 0},
		{"Alibaba's, with a webhook for profiles", Options{Provider: "alibaba", Profiles: "webhook", WebhookURL: hook}, []string{"Alibaba Cloud"}, true, 0},
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
		{Options{Provider: "CKS", Profiles: "cloud"}, "--cloud-provider=CKS: this build has no provider of its own for that cloud: use webhook"},
		{Options{Provider: "gke", Profiles: "cloud"}, `--cloud-provider="gke": want auto, gce, aws, azure, oke, alibaba, webhook or none`},
		{Options{Provider: "aws", Profiles: "cloud", MetadataEndpoint: "http://x"}, "--metadata-endpoint: "},
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

// Nobody is asked where the node is: the firmware says it. The texts are those that
// the clouds' own images show.
func TestAutoReadsTheFirmware(t *testing.T) {
	for _, test := range []struct {
		name, sys string
		endpoint  string
		want      []string
		signed    bool
	}{
		{"GCE", "product_name = Google Compute Engine\nsys_vendor = Google", "", []string{"GCE"}, true},
		{"Nitro", "sys_vendor = Amazon EC2\nproduct_name = p5.48xlarge\nbios_vendor = Amazon EC2", "", []string{"AWS"}, true},
		{"Xen of Amazon", "sys_vendor = Xen\nbios_version = 4.11.amazon\nproduct_name = HVM domU", "", []string{"AWS"}, true},
		{"Azure", "sys_vendor = Microsoft Corporation\nproduct_name = Virtual Machine\nchassis_asset_tag = 7783-7084-3265-9085-8269-3286-77", "", []string{"Azure"}, true},
		{"Hyper-V elsewhere", "sys_vendor = Microsoft Corporation\nproduct_name = Virtual Machine\nchassis_asset_tag = 4711", "", nil, false},
		{"Oracle", "sys_vendor = QEMU\nchassis_asset_tag = OracleCloud.com", "", []string{"OKE"}, true},
		{"Alibaba", "sys_vendor = Alibaba Cloud\nproduct_name = Alibaba Cloud ECS", "", []string{"Alibaba Cloud"}, true},
		{"a server of one's own", "sys_vendor = Dell Inc.\nproduct_name = PowerEdge XE9680", "", nil, false},
		{"an endpoint that somebody names", "sys_vendor = QEMU", "10.0.2.2:8080", []string{"GCE"}, false},
		{"no firmware tables", "", "", []string{"GCE"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			sys := fstest.MapFS{}
			for line := range strings.Lines(test.sys) {
				if file, text, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
					sys["class/dmi/id/"+file] = &fstest.MapFile{Data: []byte(text + "\n")}
				}
			}
			for url, more := range map[string][]string{"": nil, hook: {"webhook " + hook}} {
				warnings := 0
				if test.signed && url != "" {
					more, warnings = nil, 1
				}
				got, err := Choose(Options{Provider: Auto, Profiles: Cloud, Sys: sys, MetadataEndpoint: test.endpoint, WebhookURL: url})
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, c := range got.Candidates {
					names = append(names, c.Name())
				}
				if diff := cmp.Diff(slices.Concat(test.want, more), names); diff != "" {
					t.Errorf("with webhook %q, candidates (-want +got):\n%s", url, diff)
				}
				if got.Probe != (len(more) > 0) || len(got.Warnings) != warnings {
					t.Errorf("with webhook %q, probe %v, warnings %q", url, got.Probe, got.Warnings)
				}
			}
		})
	}
}
