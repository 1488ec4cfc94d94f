"""The service over HTTP: ``app.py`` has the routes, ``gate.py`` what every request passes first."""
