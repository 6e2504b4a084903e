// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/hex"
	"fmt"

	"golang.org/x/sys/unix"
)

// timestampGroup is what the hardware notes the time of, struct
// hwtstamp_config: flags, transmission, filter of reception
// (Documentation/networking/timestamping.rst).
var timestampGroup = group{
	name: "timestamps",
	read: func(k kernel, ifname string) (Settings, error) {
		config := make([]byte, 12)
		if err := k.ioctl(unix.SIOCGHWTSTAMP, ifname, config); err != nil {
			return nil, err
		}
		return Settings{"config": hex.EncodeToString(config)}, nil
	},
	write: func(k kernel, ifname string, _ []string, want, _ Settings) error {
		config, err := hex.DecodeString(want["config"])
		if err == nil && len(config) != 12 {
			err = fmt.Errorf("a configuration of %d bytes", len(config))
		}
		if err != nil {
			return err
		}
		return k.ioctl(unix.SIOCSHWTSTAMP, ifname, config)
	},
}
