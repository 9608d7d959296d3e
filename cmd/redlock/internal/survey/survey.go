// Package survey finds out what locks the nodes hold, all of them or one.
package survey

import "time"

// Lock is what the nodes hold under one name.
type Lock struct {
	Name string
	// Token is what a majority of the nodes holds, with Metadata and Fence; "" if no majority holds the same.
	Token    string
	Metadata string
	Fence    uint64
	// TTL is how much longer a majority holds the token; without a majority, the longest on any node. redlock.NoTTL means for ever.
	TTL   time.Duration
	On    int  // how many nodes hold the token, or without a majority, anything under the name
	Need  int  // how many nodes make the majority
	Other bool // the key is no lock: it is of another type, or longer than a token
}

// Held reports whether a majority holds the same token.
func (l Lock) Held() bool { return l.Token != "" }
