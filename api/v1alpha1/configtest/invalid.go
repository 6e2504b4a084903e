// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package configtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Invalid makes a document with one mistake, and says at which field an error
// must find it.
func Invalid(r *rand.Rand) (doc map[string]any, path string) {
	doc = Valid(r)
	g := generator{r}
	switch r.IntN(5) {
	case 0:
		path = g.misspell(doc, fields)
	case 1:
		path = g.mistype(doc, fields)
	case 2:
		path = g.combine(doc)
	default:
		path = g.misvalue(doc)
	}
	return doc, path
}

// fieldRef is where a field lies: in the document, an object of it, or an element
// of a list of it.
type fieldRef struct{ object, name, want string }

// fields are all fields that have a value, with what their type is called.
var fields = []fieldRef{
	{"", "profile", "text"}, {"", "environment", "text"},
	{"interface", "name", "text"}, {"interface", "type", "text"}, {"interface", "mode", "text"}, {"interface", "addressing", "text"},
	{"interface", "vlanID", "number"}, {"interface", "mtu", "number"}, {"interface", "hardwareAddr", "text"},
	{"interface", "gsoMaxSize", "number"}, {"interface", "groMaxSize", "number"},
	{"interface", "gsoIPv4MaxSize", "number"}, {"interface", "groIPv4MaxSize", "number"},
	{"interface", "dhcp", "flag"}, {"interface", "disableEbpfPrograms", "flag"}, {"interface", "forwarding", "flag"},
	{"interface", "arpIgnore", "number"}, {"interface", "arpAnnounce", "number"},
	{"interface", "addresses", "list"}, {"interface", "vrf", "object"}, {"interface", "ipam", "object"},
	{"interface.vrf", "name", "text"}, {"interface.vrf", "table", "number"}, {"interface.ipam", "pool", "text"},
	{"interface", "vf", "object"}, {"interface.vf", "vlan", "number"}, {"interface.vf", "vlanQoS", "number"},
	{"interface.vf", "maxTxRate", "number"}, {"interface.vf", "minTxRate", "number"},
	{"interface.vf", "spoofCheck", "flag"}, {"interface.vf", "trust", "flag"},
	{"routes[]", "destination", "text"}, {"routes[]", "gateway", "text"}, {"routes[]", "source", "text"}, {"routes[]", "scope", "number"},
	{"routes[]", "table", "number"}, {"routes[]", "metric", "number"}, {"routes[]", "mtu", "number"}, {"routes[]", "onlink", "flag"},
	{"rules[]", "priority", "number"}, {"rules[]", "source", "text"}, {"rules[]", "destination", "text"}, {"rules[]", "table", "number"},
	{"neighbors[]", "ipAddress", "text"}, {"neighbors[]", "destination", "text"}, {"neighbors[]", "hardwareAddr", "text"},
	{"ethtool", "features", "object"}, {"ethtool", "privateFlags", "object"}, {"rdma", "umad", "flag"}, {"rdma", "issm", "flag"},
	{"container", "mounts", "list"}, {"container", "env", "object"}, {"container.mounts[]", "hostPath", "text"}, {"container.mounts[]", "containerPath", "text"},
	{"", "interface", "object"}, {"", "routes", "list"}, {"", "rules", "list"}, {"", "neighbors", "list"}, {"", "sysctls", "object"}, {"", "ethtool", "object"}, {"", "rdma", "object"},
	{"", "container", "object"},
}

// misspell adds an unknown field.
func (g generator) misspell(doc map[string]any, fields []fieldRef) string {
	p := fields[g.r.IntN(len(fields))]
	object, path := objectAt(doc, p.object)
	name := g.pick(strings.ToUpper(p.name), p.name+"s", "x-"+p.name)
	object[name] = 1
	return join(path, name)
}

// mistype gives a field a value of another type.
func (g generator) mistype(doc map[string]any, fields []fieldRef) string {
	p := fields[g.r.IntN(len(fields))]
	object, path := objectAt(doc, p.object)
	values := map[string]any{"text": "x", "number": 7, "fraction": 1.5, "flag": true, "list": []any{1}, "object": map[string]any{}}
	delete(values, p.want)
	kinds := make([]string, 0, len(values))
	for kind := range values {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	object[p.name] = values[g.pick(kinds...)]
	return join(path, p.name)
}

// misvalue gives a field a value that no configuration may have there.
func (g generator) misvalue(doc map[string]any) string {
	places := make([]fieldRef, 0, len(wrongValues))
	for _, p := range fields {
		if wrongValues[p] != nil {
			places = append(places, p)
		}
	}
	p := places[g.r.IntN(len(places))]
	object, path := objectAt(doc, p.object)
	values := wrongValues[p]
	value := values[g.r.IntN(len(values))]
	if list, ok := value.([]any); ok {
		object[p.name] = list
		return fmt.Sprintf("%s[%d]", join(path, p.name), len(list)-1)
	}
	object[p.name] = value
	return join(path, p.name)
}

var (
	noNumbers   = []any{-1, 1 << 32, int64(-1) << 63}
	noAddresses = []any{"", "10.0.0", "10.0.0.1/8", "fe80::1%eth0", "::ffff:10.0.0.1", "0.0.0.0", "host.example"}
	noPrefixes  = []any{"", "10.0.0.1", "10.0.0.1/33", "::ffff:10.0.0.0/120", "fd00::/129", "default"}
	noSizes     = []any{0, -1, 524281, 1<<31 - 1}
	noNames     = []any{"", "..", "a b", "a/b", "sixteen-letters-", "naïve", "all", "default", "lo", "a%d"}
	noMACs      = []any{"", "02:00", "02:00:00:00:00:zz"}
	noPaths     = []any{"", "/", "gib", "./gib", "/usr/local/gib/", "/usr//gib", "/usr/../gib", "/usr/./gib", "/usr/local/..", "/a\nb", "/a\x00b", "/" + strings.Repeat("p", 1024)}
)

// wrongValues are wrong for a field whatever the others say; of a list the last
// element is.
var wrongValues = map[fieldRef][]any{
	{"", "profile", "text"}:                   {strings.Repeat("p", 254)},
	{"", "environment", "text"}:               {"", "NCCL", "mpi", "nccl "},
	{"interface", "name", "text"}:             noNames,
	{"interface", "type", "text"}:             {"", "bridge", "Macvlan"},
	{"interface", "addressing", "text"}:       {"", "auto", "DHCP"},
	{"interface", "vlanID", "number"}:         {0, -1, 4095},
	{"interface", "mtu", "number"}:            {0, 67, -9000, 65536},
	{"interface", "hardwareAddr", "text"}:     {"", "02:00", "01:00:5e:00:00:01", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"},
	{"interface", "gsoMaxSize", "number"}:     noSizes,
	{"interface", "groMaxSize", "number"}:     noSizes,
	{"interface", "gsoIPv4MaxSize", "number"}: noSizes,
	{"interface", "groIPv4MaxSize", "number"}: noSizes,
	{"interface", "arpIgnore", "number"}:      {-1, 4, 7, 9},
	{"interface", "arpAnnounce", "number"}:    {-1, 3},
	{"interface", "addresses", "list"}: {[]any{"10.0.0.1"}, []any{"10.0.0.2/24", "10.0.0.1/33"}, []any{"::ffff:10.0.0.1/120"},
		[]any{"0.0.0.0/0"}, []any{"224.0.0.1/4"}, []any{"10.0.0.2/24", "10.0.0.2/16"}, []any{"ff02::1/128"}},
	{"interface.vrf", "name", "text"}:          noNames,
	{"interface.vrf", "table", "number"}:       {0, -1, 253, 254, 255, 1 << 32},
	{"interface.ipam", "pool", "text"}:         {"", "A", "a_b", "-a"},
	{"interface.vf", "vlan", "number"}:         {-1, 4095},
	{"interface.vf", "vlanQoS", "number"}:      {-1, 8},
	{"interface.vf", "maxTxRate", "number"}:    {-1},
	{"interface.vf", "minTxRate", "number"}:    {-1},
	{"routes[]", "destination", "text"}:        noPrefixes,
	{"routes[]", "gateway", "text"}:            noAddresses,
	{"routes[]", "source", "text"}:             noAddresses,
	{"routes[]", "scope", "number"}:            {-1, 1, 200, 254, 255},
	{"routes[]", "table", "number"}:            noNumbers,
	{"routes[]", "metric", "number"}:           noNumbers,
	{"routes[]", "mtu", "number"}:              {0, 67, -1, 65536},
	{"rules[]", "priority", "number"}:          {-1, 32768},
	{"rules[]", "source", "text"}:              noPrefixes,
	{"rules[]", "destination", "text"}:         noPrefixes,
	{"rules[]", "table", "number"}:             append([]any{0}, noNumbers...),
	{"neighbors[]", "ipAddress", "text"}:       noAddresses,
	{"neighbors[]", "destination", "text"}:     noAddresses,
	{"neighbors[]", "hardwareAddr", "text"}:    noMACs,
	{"container.mounts[]", "hostPath", "text"}: noPaths,
	{"container.mounts[]", "containerPath", "text"}: append([]any{"/dev", "/dev/infiniband", "/proc", "/sys/class", "/run", "/run/plumbline",
		"/run/plumbline/nccl-topology.xml", "/run/kubernetes.io/dra-device-attributes", "/var", "/var/run", "/var/run/gib"}, noPaths...),
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
