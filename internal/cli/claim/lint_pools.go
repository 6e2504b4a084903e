// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/addresspool"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func (in *inputs) addPool(name string) {
	if in.pools == nil {
		in.pools = map[string]bool{}
	}
	in.pools[name] = true
}

// addressPool checks a pool by the rules of the API server and of who carves its blocks.
func (l linter) addressPool() {
	spec, subnets := &l.o.pool.Spec, field.NewPath("spec", "subnets")
	l.labels(spec.NodeSelector)
	if n := len(spec.Subnets); n < 1 || n > 2 {
		l.error(field.Invalid(subnets, field.OmitValueType{}, fmt.Sprintf("has %d: want one of IPv4, one of IPv6, or one of each", n)))
	}
	var families []bool
	for i, s := range spec.Subnets {
		subnet, err := addresspool.ParseSubnet(s.CIDR, int(s.BlockSize), s.Gateway, s.Exclude)
		if err != nil {
			l.sentences(subnets.Index(i), err.Error())
			continue
		}
		if slices.Contains(families, subnet.Prefix.Addr().Is4()) {
			l.error(field.Invalid(subnets.Index(i).Child("cidr"), s.CIDR, "another subnet is of its family: want one of each at most"))
		}
		families = append(families, subnet.Prefix.Addr().Is4())
		l.overlaps(subnets.Index(i).Child("cidr"), subnet.Prefix)
	}
	for i, r := range spec.Routes {
		if _, err := netip.ParsePrefix(r.Destination); err != nil {
			l.error(field.Invalid(field.NewPath("spec", "routes").Index(i).Child("destination"), r.Destination, "want a subnet such as 10.0.0.0/8"))
		}
	}
}

// overlaps refuses a subnet that shares addresses with a pool before it among the files.
func (l linter) overlaps(at *field.Path, subnet netip.Prefix) {
	for _, other := range l.in.objects {
		if other == l.o {
			return
		}
		if other.pool == nil {
			continue
		}
		for _, s := range other.pool.Spec.Subnets {
			if theirs, err := netip.ParsePrefix(s.CIDR); err == nil && theirs.Overlaps(subnet) {
				l.error(field.Invalid(at, subnet.String(), fmt.Sprintf("shares addresses with %s of pool %s: want pools that are apart", theirs, other.name)))
			}
		}
	}
}

func (l linter) labels(s metav1.LabelSelector) {
	if _, err := metav1.LabelSelectorAsSelector(&s); err != nil {
		l.error(field.Invalid(field.NewPath("spec", "nodeSelector"), field.OmitValueType{}, err.Error()))
	}
}

// fieldThen is a sentence that begins with a field.
var fieldThen = regexp.MustCompile(`^([a-z][A-Za-z]*(?:\.[A-Za-z]+|\[[^ ]*\])*): (.*)$`)

// sentences reports what another package says of an object, a sentence a line, each of which
// may begin with a field.
func (l linter) sentences(at *field.Path, text string) {
	for line := range strings.Lines(text) {
		line, path := strings.TrimSpace(line), at.String()
		if m := fieldThen.FindStringSubmatch(line); m != nil {
			path, line = strings.TrimPrefix(path+"."+m[1], "."), m[2]
		}
		l.error(&field.Error{Type: field.ErrorTypeInvalid, Field: path, BadValue: field.OmitValueType{}, Detail: line})
	}
}

// poolIsThere wants the pool that parameters name to be there.
func (l linter) poolIsThere(at *field.Path, c *v1alpha1.NetworkConfig) {
	if c.Interface.IPAM != nil && c.Interface.IPAM.Pool != nil {
		l.poolIsKnown(at.Child("interface", "ipam", "pool"), *c.Interface.IPAM.Pool)
	}
}

// poolIsKnown wants a pool to be there, as far as that is known: files need not have all of a
// cluster.
func (l linter) poolIsKnown(at *field.Path, name string) {
	if l.in.pools == nil || l.in.pools[name] {
		return
	}
	e := notFound(at, name, slices.Sorted(maps.Keys(l.in.pools)))
	if l.in.allPools {
		l.error(e)
		return
	}
	e.Detail = "no NetworkAddressPool of the name is among the files: " + e.Detail
	l.warning(e)
}

// rawOf are the parameters of dra.net; nothing where they are another driver's.
func rawOf(o *resourceapi.OpaqueDeviceConfiguration) []byte {
	if o == nil || o.Driver != slicecodec.DriverNet {
		return nil
	}
	return o.Parameters.Raw
}
