package netlinkrdma

// CommandName is commandName, for tests of the external test package.
var CommandName = commandName
