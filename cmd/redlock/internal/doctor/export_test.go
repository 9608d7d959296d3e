package doctor

// Links returns where in docs/ each check is explained: the page and the anchor.
func Links() map[string]string {
	links := map[string]string{}
	for _, c := range checks {
		links[c.name] = c.docs
	}
	return links
}

// ACLRules returns the rules of each line, with a key prefix.
func ACLRules(prefix string) (lines [][]string) {
	for _, l := range aclLines {
		lines = append(lines, l.rules(prefix))
	}
	return lines
}
