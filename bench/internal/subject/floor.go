package subject

import (
	"context"

	"github.com/quorumlock/quorumlock/bench/internal/floor"
)

type floorClient struct{ *floor.Client }

// openFloor writes in the way that is fastest for so many callers and nodes.
func openFloor(s Setup) (Client, error) {
	writing := floor.Queued
	switch {
	case s.Callers > 1:
		writing = floor.Gathered
	case len(s.Addrs) == 1:
		writing = floor.Direct
	}
	c, err := floor.Dial(s.Addrs, TTL, writing)
	return floorClient{c}, err
}

func (c floorClient) Caller(name string) Caller { return &floorCaller{client: c.Client, name: name} }

type floorCaller struct {
	client *floor.Client
	name   string
	token  floor.Token
}

func (c *floorCaller) Acquire(context.Context) (err error) {
	c.token, err = c.client.Acquire(c.name)
	return err
}

func (c *floorCaller) Release(context.Context) error { return c.client.Release(c.name, c.token) }
