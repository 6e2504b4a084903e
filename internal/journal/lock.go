// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// Every lock of a driver is one byte of one file that is never unlinked:
// a file per claim would either grow the directory for ever or, unlinked, let
// two processes lock two files of one name. The locks are the kernel's open
// file description locks (fcntl(2), F_OFD_SETLK): they hold between goroutines
// as between processes, and end with the process. Bytes need not exist.
const (
	allocationByte  = 0
	writeByte       = 1
	firstClaimByte  = 2
	lockPollFirst   = time.Millisecond
	lockPollAtMost  = 20 * time.Millisecond
	writeLockAtMost = 30 * time.Second
)

// LockClaim takes the lock of one claim, waiting until ctx ends. Call the
// returned function to give it back. Take it before LockAllocation, and only
// one at a time.
func (j *Journal) LockClaim(ctx context.Context, driverName string, uid types.UID) (unlock func(), err error) {
	if err := checkUID(uid); err != nil {
		return nil, fmt.Errorf("lock claim: %w", err)
	}
	unlock, err = j.lock(ctx, driverName, claimByte(uid))
	if err != nil {
		return nil, fmt.Errorf("lock claim %s of %s: %w", uid, driverName, err)
	}
	return unlock, nil
}

// LockAllocation takes the driver's one lock around reading what is held,
// planning and journaling. Never hold it over kernel or network work.
func (j *Journal) LockAllocation(ctx context.Context, driverName string) (unlock func(), err error) {
	unlock, err = j.lock(ctx, driverName, allocationByte)
	if err != nil {
		return nil, fmt.Errorf("lock allocation of %s: %w", driverName, err)
	}
	return unlock, nil
}

// lockWrites is held for one write: milliseconds, unless the disk is stuck.
func (j *Journal) lockWrites(driverName string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeLockAtMost)
	defer cancel()
	unlock, err = j.lock(ctx, driverName, writeByte)
	if err != nil {
		return nil, fmt.Errorf("wait for another write: %w", err)
	}
	return unlock, nil
}

// claimByte places a claim's lock. 62 bits: two claims sharing a byte would
// only wait for each other.
func claimByte(uid types.UID) int64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, string(uid)) // a hash never fails
	return firstClaimByte + int64(h.Sum64()>>2)
}

func (j *Journal) lock(ctx context.Context, driverName string, offset int64) (func(), error) {
	if err := checkDriver(driverName); err != nil {
		return nil, err
	}
	path := filepath.Join(j.dir, driverName+lockSuffix)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	// Closing the only descriptor of the description gives the lock back.
	unlock := func() { _ = f.Close() }
	// The waiting form of fcntl cannot be cancelled, so it is asked again.
	for wait := lockPollFirst; ; wait = min(2*wait, lockPollAtMost) {
		request := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: offset, Len: 1}
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &request)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR) {
			unlock()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			unlock()
			return nil, fmt.Errorf("%s is held: %w", path, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}
