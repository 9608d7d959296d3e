package cluster

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"

	"github.com/quorumlock/quorumlock/internal/inquiry"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// owner returns the address of the master that has a slot, from a reply to CLUSTER SLOTS, and some of the other masters.
// asked is the address of the server that has replied.
func owner(v *wire.Value, slot int, asked string) (address string, masters []string, err error) {
	if v.Kind != '*' {
		return "", nil, wire.Unexpected(v).Err
	}
	for i := range v.Items {
		// An entry has the first and the last of its slots, the master, and the replicas.
		entry := &v.Items[i]
		if entry.Kind != '*' || len(entry.Items) < 3 || !isSlot(&entry.Items[0]) || !isSlot(&entry.Items[1]) {
			return "", nil, wire.Unexpected(entry).Err
		}
		master, err := addressIn(&entry.Items[2], asked)
		has := int(entry.Items[0].Num) <= slot && slot <= int(entry.Items[1].Num)
		switch {
		case has && err != nil:
			return "", nil, err
		case has:
			address = master
		}
		if err == nil && len(masters) < maxMasters && !slices.Contains(masters, master) {
			masters = append(masters, master)
		}
	}
	if address == "" {
		return "", nil, fmt.Errorf("no master has the slot %d", slot)
	}
	return address, masters, nil
}

func isSlot(v *wire.Value) bool { return v.Kind == ':' && v.Num >= 0 && v.Num < slots }

// addressIn returns the address of a server in an entry of CLUSTER SLOTS. A server without a host has that of the asked
// one, since it does not know its own.
func addressIn(v *wire.Value, asked string) (string, error) {
	if v.Kind != '*' || len(v.Items) < 2 {
		return "", wire.Unexpected(v).Err
	}
	host, port := &v.Items[0], &v.Items[1]
	if port.Kind != ':' || port.Num < 1 || port.Num > 65535 {
		return "", wire.Unexpected(port).Err
	}
	name, _, _ := net.SplitHostPort(asked)
	switch {
	case host.Kind == '_', host.IsText() && len(host.Text) == 0:
	case host.IsText() && string(host.Text) == "?":
		return "", fmt.Errorf("a master at port %d has no name (cluster-announce-hostname)", port.Num)
	default:
		var err error
		if name, err = inquiry.Host(host); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(name, strconv.FormatInt(port.Num, 10)), nil
}

var (
	// works matches the state of a server that reaches most masters, and knows who has each slot.
	works        = regexp.MustCompile(`(?m)^cluster_state:ok\b`)
	currentEpoch = regexp.MustCompile(`(?m)^cluster_current_epoch:(\d{1,18})\b`)
)

// epochIn returns the epoch in a reply to CLUSTER INFO. It is 0 for a server that has lost contact with the cluster.
func epochIn(v *wire.Value) (epoch int64, err error) {
	if !v.IsText() {
		return 0, wire.Unexpected(v).Err
	}
	match := currentEpoch.FindSubmatch(v.Text)
	if match == nil || !works.Match(v.Text) {
		return 0, nil
	}
	return strconv.ParseInt(string(match[1]), 10, 64)
}
