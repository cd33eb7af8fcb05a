# bash completion for rdmalink

_rdmalink() {
	local word about
	COMPREPLY=()
	while IFS=$'\t' read -r word about; do
		COMPREPLY+=("$word")
	done < <("$1" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}

complete -F _rdmalink rdmalink
