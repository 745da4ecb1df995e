"""What every service needs around its own work: settings, logs, health, a runner, back-off."""
