package pool

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/node"
)

// parseCluster parses a URL of a cluster. The hosts are some of its servers, and user name and password are for all of
// them. The parameter nodes says how many nodes there are.
func parseCluster(scheme, authority, path string) ([]*node.Server, error) {
	u, hosts, err := splitHosts(scheme, authority, path)
	if err != nil {
		return nil, err
	}
	n, err := takeNodes(u)
	if err != nil {
		return nil, err
	}
	if u.Path != "" && u.Path != "/" {
		return nil, errors.New("database: a cluster has none but 0, which is not written")
	}
	s, err := readURL(u)
	if err != nil {
		return nil, err
	}
	servers, err := serversAt(scheme, hosts, "6379", *s)
	if err != nil {
		return nil, err
	}
	if s.TLS != nil {
		s.TLS.ServerName = "" // that of the server at hand, which the cluster may have named
		for i := range servers {
			servers[i].TLS = s.TLS
		}
	}
	all, nodes := cluster.New(servers), make([]*node.Server, n)
	for i := range nodes {
		one, found := *s, all.Node(i, n)
		one.Finder, one.Tag, one.Address = found, found.Tag(), found.Name()+"@"+servers[0].Address
		nodes[i] = &one
	}
	return nodes, nil
}

// takeNodes takes the parameter nodes out of a URL.
func takeNodes(u *url.URL) (n int, err error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return 0, errQuery
	}
	values := query["nodes"]
	if len(values) == 1 {
		n, _ = strconv.Atoi(values[0])
	}
	if n < 1 || n > cluster.MaxNodes {
		return 0, fmt.Errorf("nodes: the parameter must be given once, from 1 to %d, "+
			"as in redis+cluster://host1,host2/?nodes=3; "+
			"it is how many nodes the cluster makes, the same number in all programs", cluster.MaxNodes)
	}
	if len(query) > 1 {
		return 0, errors.New("parameters: only nodes is known; a cluster has no databases")
	}
	u.RawQuery = ""
	return n, nil
}
