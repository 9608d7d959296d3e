package doctor

// Anchors returns where in docs/operations.md each check is explained.
func Anchors() map[string]string {
	anchors := map[string]string{}
	for _, c := range checks {
		anchors[c.name] = c.docs
	}
	return anchors
}

// ACLRules returns the rules of each line, with a key prefix.
func ACLRules(prefix string) (lines [][]string) {
	for _, l := range aclLines {
		lines = append(lines, l.rules(prefix))
	}
	return lines
}
