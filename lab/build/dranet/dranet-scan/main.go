// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command dranet-scan has DRANET look at every link of the network namespace that
// it is started in, as its agent does, and prints the milliseconds of each look, a
// line each. Its only argument is how many looks.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/dranet/pkg/inventory"
)

func main() {
	flag.Parse()
	looks, err := strconv.Atoi(flag.Arg(0))
	if err != nil || looks < 1 {
		fmt.Fprintln(os.Stderr, "dranet-scan: want one argument, the number of looks")
		os.Exit(2)
	}
	for range looks {
		fmt.Fprintf(os.Stdout, "%.3f\n", look().Seconds()*1000)
	}
}

// look is the time from the start of an inventory to its first list of devices.
func look() time.Duration {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db := inventory.New(inventory.WithRateLimiter(rate.NewLimiter(rate.Inf, 1)))
	start := time.Now()
	go func() { _ = db.Run(ctx) }() // it ends with the context
	<-db.GetResources(ctx)
	return time.Since(start)
}
