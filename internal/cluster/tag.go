package cluster

import "strconv"

// slots is how many hash slots a cluster has.
const slots = 16384

// tagOf returns the hash tag of the i-th of n nodes, without its braces, and its slot. Programs that use the same locks
// must have the same tags, so this function must never change.
//
// The slot of the tag is in the middle of the i-th of n equal parts of all slots. So the nodes lie on different masters
// if a cluster has at least n of them, which have equally many slots each. The middle is as narrow as that needs.
func tagOf(i, n int) (tag string, slot int) {
	for k := 1; ; k++ {
		tag = "q" + strconv.Itoa(i) + "/" + strconv.Itoa(n) + "." + strconv.Itoa(k)
		slot = int(crc16(tag)) % slots
		part := 2 * slots // in units of 1/2n of a slot
		if away := (2*slot+1)*n - (2*i+1)*slots; 40*max(away, -away) <= part {
			return tag, slot
		}
	}
}

// crc16 returns the checksum by which a cluster finds the slot of a key (CRC-16/XMODEM).
func crc16(text string) (sum uint16) {
	for i := range len(text) {
		sum ^= uint16(text[i]) << 8
		for range 8 {
			carry := sum >> 15
			sum = sum<<1 ^ carry*0x1021
		}
	}
	return sum
}
