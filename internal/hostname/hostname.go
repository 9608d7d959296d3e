// Package hostname gives a host one spelling, so that all programs call a server by the same name.
package hostname

import (
	"net/netip"
	"regexp"
	"strings"
)

// names matches labels with dots between them. A dot at the end says that the name is complete (RFC 1034, 3.1). Names of
// containers may have an underscore.
var names = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?$`)

// One returns the one spelling of an IP address, of IPv6 without brackets, or of a name, which is in lower case. is is
// false for any other text.
func One(host string) (one string, is bool) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String(), true
	}
	name := strings.ToLower(host)
	return name, names.MatchString(name)
}
