package redlock

import (
	"cmp"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// request checks a call's arguments before anything is sent.
func (c *config) request(name string, opts []LockOption) (r request, err error) {
	r = c.lock
	r.name, r.key = name, c.prefix+name
	if len(opts) > 0 {
		if r, err = r.with(opts); err != nil {
			return r, err
		}
	}
	if r.TTL, err = c.checkTTL(r.TTL, r.Grace); err != nil {
		return r, err
	}
	switch {
	case name == "":
		return r, invalid("the name is empty")
	case engine.Reserved(r.key):
		return r, invalid("the name %q: the key %q is that of a counter of fencing tokens, not of a lock", name, r.key)
	case r.given&givenOwner != 0 && r.owner == "":
		return r, invalid("Owner: the id is empty")
	case len(r.metadata) > maxMetadataBytes:
		return r, invalid("Metadata(%.32q...): %d bytes, at most %d", r.metadata, len(r.metadata), maxMetadataBytes)
	case strings.Contains(r.metadata, "|"):
		return r, invalid("Metadata(%q): must not contain |, which separates the fencing token", r.metadata)
	case r.maxWait < 0:
		return r, invalid("MaxWait(%s): must not be below zero", r.maxWait)
	case r.maxOutage < 0:
		return r, invalid("MaxOutage(%s): must not be below zero", r.maxOutage)
	case r.given&givenMaxHold != 0 && !r.Renewed:
		return r, invalid("MaxHold(%s) without AutoExtend: the lock ends at its TTL anyway", r.MaxHold)
	case r.Renewed && r.MaxHold < r.TTL:
		return r, invalid("MaxHold(%s): below the TTL, %s", r.MaxHold, r.TTL)
	case r.source != nil && r.given&givenMetadata != 0 && r.metadata != "":
		return r, invalid("Metadata(%q): a token of a TokenSource has none", r.metadata)
	}
	if !r.Renewed {
		r.MaxHold = NoLimit
	}
	r.OwnToken = r.source != nil
	return r, cmp.Or(checkText("name", name), checkText("owner id", r.owner), checkText("metadata", r.metadata))
}

// with returns the request with options applied. It is on the heap then, as the options are given its address.
func (r request) with(opts []LockOption) (request, error) {
	for _, opt := range opts {
		if opt == nil {
			return r, invalid("nil lock option")
		}
		opt.applyLock(&r)
	}
	return r, nil
}

// checkTTL returns a TTL as it goes over the wire, in whole milliseconds.
func (c *config) checkTTL(ttl, grace time.Duration) (time.Duration, error) {
	whole := ttl.Truncate(time.Millisecond)
	switch {
	case ttl < minTTL:
		return 0, invalid("TTL %s: must be at least %s", ttl, minTTL)
	case ttl > c.maxTTL:
		return 0, invalid("TTL %s: must be at most %s (%s)", ttl, c.maxTTL, c.maxTTLBy)
	case quorum.Drift{Factor: c.settings.Drift.Factor}.Of(whole) >= whole-c.settings.Drift.Floor: // a difference cannot overflow
		return 0, invalid("TTL %s: the allowance for clock drift, %v x TTL + %s, leaves nothing of it (WithDrift)",
			ttl, c.settings.Drift.Factor, c.settings.Drift.Floor)
	case grace < 0 || grace > whole/2 || grace >= whole-c.settings.Drift.Of(whole):
		return 0, invalid("Grace(%s): must be from 0 to half of the TTL, %s, and leave something of the validity", grace, ttl)
	}
	return whole, nil
}
