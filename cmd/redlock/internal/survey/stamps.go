package survey

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/internal/node"
)

// AskStamps asks servers since when they have been in use as nodes. It returns within the timeout. Its result i is about the i-th
// server, and zero if that is not to be asked.
func AskStamps(ctx context.Context, servers []*node.Server, asked func(addr string) bool, timeout time.Duration) []client.Stamped {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	all := make([]client.Stamped, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		if asked(s.Address) {
			asking.Go(func() { all[i] = askStamp(ctx, s) })
		}
	}
	asking.Wait()
	return all
}

func askStamp(ctx context.Context, s *node.Server) client.Stamped {
	c, err := client.Connect(ctx, s)
	if err != nil {
		return client.Stamped{StampErr: err}
	}
	defer c.Close()
	replies, err := c.DoAll(ctx, append([][]string{{"INFO", "server"}, {"INFO", "replication"}}, client.AskStamp(s)...))
	if err != nil {
		return client.Stamped{StampErr: err}
	}
	server, _ := textOf(replies[0]) // a refusal says nothing
	replication, _ := textOf(replies[1])
	return client.ReadStamped(server, replication, replies[2:])
}
