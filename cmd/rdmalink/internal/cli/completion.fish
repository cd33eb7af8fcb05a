# fish completion for rdmalink

function __rdmalink_words
	set -l typed (commandline -opc)
	set -l last (commandline -ct)
	$typed[1] completion words -- $typed[2..-1] "$last" 2>/dev/null
end

complete -c rdmalink -f -a '(__rdmalink_words)'
