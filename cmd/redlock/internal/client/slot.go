package client

import (
	"crypto/rand"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// AskSlot returns the command that asks a server of a cluster whether it has the slot of its node, with all keys. It is about
// a key that does not exist, behind a prefix of keys that the user may read. There is none for any other server.
// [ReadSlot] takes the reply.
func AskSlot(s *node.Server, prefix string) (commands [][]string) {
	if s.Tag == "" {
		return nil
	}
	return [][]string{{"PTTL", s.Tag + prefix + rand.Text()}}
}

// ReadSlot returns nil if the server has the slot, or was not asked. A server that may not be asked has not said so.
func ReadSlot(replies []any) error {
	for _, reply := range replies {
		switch reply := reply.(type) {
		case int64:
		case *nodeerr.ServerError:
			return wire.InCluster(reply)
		default:
			return fmt.Errorf("%w: the reply to PTTL", nodeerr.ErrProtocol)
		}
	}
	return nil
}
