# awk -f surface.awk API DIFF prints the lines of apidiff's DIFF, except those of names that API, an older
# internal/house/api.txt, marks as experimental. It fails if it prints any.
FILENAME == ARGV[1] {
	if (!/ \/\/ experimental$/) next
	package = "./" substr($1, 1, length($1) - 1)
	name = $3; sub(/\(.*/, "", name)
	if ($2 == "//") all[package] = 1
	else if ($2 == "method") { name = $4; sub(/\(.*/, "", name); some[package "." $3 "." name] = 1 }
	else some[package "." name] = 1
	next
}
/^- / {
	name = $2; sub(/:$/, "", name)
	package = name; sub(/\.[^\/]*$/, "", package); if (package == ".") package = name
	type = name; sub(/^\.\/[^.]*\./, "", type); gsub(/[(*)]/, "", type); sub(/\..*/, "", type)
	if (name in some || package in all || (package "." type) in some) next
	print; bad = 1
}
END { exit bad }
