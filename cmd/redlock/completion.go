package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd is the subcommand completion.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints the script.
func (c *completionCmd) Run(command *kong.Context, to streams) error {
	script := map[string]func(*kong.Node) string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Shell]
	_, err := fmt.Fprint(to.out, script(command.Model.Node))
	return err
}

// shownFlags returns the flags of a command that are shown, its own and those of all commands.
func shownFlags(n *kong.Node) []*kong.Flag { return slices.Concat(n.AllFlags(true)...) }

// flagWords returns the forms in which a flag is typed.
func flagWords(f *kong.Flag) []string {
	words := []string{"--" + f.Name}
	if f.Short != 0 {
		words = append(words, "-"+string(f.Short))
	}
	return words
}

// isFile reports whether the value of a flag is the name of a file.
func isFile(f *kong.Flag) bool { return f.PlaceHolder == "FILE" || f.PlaceHolder == "DIR" }

// choices returns the values that an argument may have; none means any.
func choices(arg *kong.Positional) []string {
	if arg.Enum == "" {
		return nil // and not the one empty value that EnumSlice makes of it
	}
	return arg.EnumSlice()
}

// takesName reports whether the first argument of a command is the name of a lock.
func takesName(c *kong.Node) bool { return len(c.Positional) > 0 && c.Positional[0].Name == "name" }

// bashCompletion returns the script for bash. Behind -- it completes as for the command that stands there.
func bashCompletion(app *kong.Node) string {
	words := func(n *kong.Node) (all []string) {
		for _, arg := range n.Positional {
			all = append(all, choices(arg)...)
		}
		for _, f := range shownFlags(n) {
			all = append(all, flagWords(f)...)
		}
		return all
	}
	var enums, files, free, commands, named []string
	var cases strings.Builder
	for _, c := range app.Children {
		commands = append(commands, c.Name)
		if takesName(c) {
			named = append(named, c.Name)
		}
		fmt.Fprintf(&cases, "        %s) words='%s' ;;\n", c.Name, strings.Join(words(c), " "))
		for _, f := range shownFlags(c) {
			for _, word := range flagWords(f) {
				switch pattern := fmt.Sprintf("'%s %s'", c.Name, word); {
				case f.IsBool():
				case f.Enum != "":
					enums = append(enums, fmt.Sprintf("        %s) words='%s' ;;\n", pattern, strings.Join(f.EnumSlice(), " ")))
				case isFile(f):
					files = append(files, pattern)
				default:
					free = append(free, pattern)
				}
			}
		}
	}
	return fmt.Sprintf(`# Completion of redlock for bash.
_redlock() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= words= i
    # bash makes three words of --flag=value.
    [[ $cur == = ]] && cur=
    [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            declare -F _command_offset >/dev/null && _command_offset $((i + 1))
            return
        fi
        [[ -z $command && ${COMP_WORDS[i]} != -* ]] && command=${COMP_WORDS[i]}
    done
    case "$command" in
        '') words='%s' ;;
%s    esac
    case "$command $prev" in
%s        %s) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        %s) compopt +o default; return ;;
    esac
    if [[ $cur != -* ]]; then
        case "$command" in
            %s) _redlock_names ;;
        esac
        [[ ${#COMPREPLY[@]} -gt 0 ]] && return
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
# Completes the name of a lock. Names are data: quoted for the line, and never words of this script.
_redlock_names() {
    local rest=$COMP_LINE word= name i
    local -a line=()
    # bash has broken words at : and = too. Those that nothing separates belong together.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        rest=${rest#"${COMP_WORDS[i]}"}
        word+=${COMP_WORDS[i]}
        if [[ $i -eq $COMP_CWORD || $rest == [[:space:]]* ]]; then
            line+=("$word")
            [[ $i -lt $COMP_CWORD ]] && word=
            rest=${rest#"${rest%%%%[![:space:]]*}"}
        fi
    done
    [[ $word == *[\'\"\$]* ]] && return # quoted: what stands there cannot be told without running it
    while IFS= read -r name; do
        printf -v name '%%q' "$name"
        [[ $name == "$word"* ]] && COMPREPLY+=("${name#"${word%%"${word##*[:=]}"}"}")
    done < <("${line[0]}" `+completeNames+` "${line[@]:1}" 2>/dev/null)
}
complete -o default -F _redlock redlock
`, strings.Join(append(commands, words(app)...), " "), cases.String(),
		strings.Join(enums, ""), strings.Join(files, " | "), strings.Join(free, " | "), strings.Join(named, "|"))
}

// zshCompletion returns the script for zsh.
func zshCompletion(app *kong.Node) string {
	quote := strings.NewReplacer("'", "'\\''", "[", "\\[", "]", "\\]", ":", "\\:").Replace
	flags := func(n *kong.Node) string {
		var b strings.Builder
		for _, f := range shownFlags(n) {
			for _, word := range flagWords(f) {
				switch text := quote(f.Help); {
				case f.IsBool():
					fmt.Fprintf(&b, " \\\n                '%s[%s]'", word, text)
				case f.Enum != "":
					fmt.Fprintf(&b, " \\\n                '%s=[%s]:value:(%s)'", word, text, strings.Join(f.EnumSlice(), " "))
				case isFile(f):
					fmt.Fprintf(&b, " \\\n                '%s=[%s]:file:_files'", word, text)
				default:
					fmt.Fprintf(&b, " \\\n                '%s=[%s]:%s: '", word, text, quote(f.FormatPlaceHolder()))
				}
			}
		}
		return b.String()
	}
	var commands, cases strings.Builder
	for _, c := range app.Children {
		fmt.Fprintf(&commands, "        '%s:%s'\n", c.Name, quote(c.Help))
		arguments := ""
		for _, arg := range c.Positional {
			if enum := choices(arg); len(enum) > 0 {
				arguments += fmt.Sprintf(" ':%s:(%s)'", arg.Name, strings.Join(enum, " "))
			}
		}
		if takesName(c) {
			arguments += " '1:name:_redlock_names'"
		}
		if c.Passthrough {
			arguments += " '*::command:_normal'"
		}
		fmt.Fprintf(&cases, "            %s) _arguments%s%s ;;\n", c.Name, arguments, flags(c))
	}
	return fmt.Sprintf(`#compdef redlock
# Completion of redlock for zsh.
_redlock_names() {
    local -a names=(${(f)"$(redlock `+completeNames+` "${(@)words[1,CURRENT]}" 2>/dev/null)"})
    compadd -a names
}
_redlock() {
    local curcontext=$curcontext state line
    local -a commands=(
%s    )
    _arguments -C%s \
        '1: :->command' '*:: :->argument'
    case $state in
        command) _describe command commands ;;
        argument)
            case $line[1] in
%s            esac ;;
    esac
}
if [[ $funcstack[1] == _redlock ]]; then _redlock "$@"; else compdef _redlock redlock; fi
`, commands.String(), flags(app), cases.String())
}

// fishCompletion returns the script for fish.
func fishCompletion(app *kong.Node) string {
	quote := strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace
	var b strings.Builder
	b.WriteString("# Completion of redlock for fish.\ncomplete -c redlock -f\n")
	flag := func(condition string, f *kong.Flag) {
		fmt.Fprintf(&b, "complete -c redlock -n '%s' -l %s", condition, f.Name)
		if f.Short != 0 {
			fmt.Fprintf(&b, " -s %c", f.Short)
		}
		switch {
		case f.IsBool():
		case f.Enum != "":
			fmt.Fprintf(&b, " -x -a '%s'", strings.Join(f.EnumSlice(), " "))
		case isFile(f):
			b.WriteString(" -r -F")
		default:
			b.WriteString(" -x")
		}
		fmt.Fprintf(&b, " -d '%s'\n", quote(f.Help))
	}
	for _, f := range shownFlags(app) {
		flag("__fish_use_subcommand", f)
	}
	for _, c := range app.Children {
		fmt.Fprintf(&b, "complete -c redlock -n __fish_use_subcommand -a %s -d '%s'\n", c.Name, quote(c.Help))
		condition := "__fish_seen_subcommand_from " + c.Name
		for _, arg := range c.Positional {
			if enum := choices(arg); len(enum) > 0 {
				fmt.Fprintf(&b, "complete -c redlock -n '%s' -a '%s'\n", condition, strings.Join(enum, " "))
			}
		}
		if takesName(c) {
			fmt.Fprintf(&b, "complete -c redlock -n '%s' -a '(redlock %s (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'\n", condition, completeNames)
		}
		for _, f := range c.Flags {
			if !f.Hidden {
				flag(condition, f)
			}
		}
	}
	return b.String()
}
